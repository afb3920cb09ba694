/* SPDX-License-Identifier: Apache-2.0 */
#include "operation.h"

#include <stdio.h>
#include <string.h>

#define REFUSALS_MAX 64

static bool row_claims(const attune_kernel_info *row, const struct conform_need *need) {
    return row->op == need->op && row->runnable && (row->dtypes >> need->dtype & 1) &&
           (row->features & need->features) == need->features && need->head_dim <= row->head_dim_max &&
           need->head_dim_v <= row->head_dim_v_max && need->head_dim % row->head_dim_multiple == 0 &&
           need->head_dim_v % row->head_dim_multiple == 0;
}

static void add_family(struct conform_list *list, const struct conform_subject *subject,
                       const struct conform_family_of_cases *family) {
    for (int64_t number = 0; number < family->count; number++) {
        struct conform_need need = {0};
        char name[CONFORM_NAME_MAX];
        char forced[CONFORM_NAME_MAX + ATTUNE_NAME_MAX + 8];
        if (!family->describe(number, &need, name)) {
            continue;
        }
        conform_list_add_check(list, family->group, name, family->check, number);
        for (int32_t n = 0; n < subject->kernel_count; n++) {
            if (row_claims(&subject->kernels[n], &need)) {
                snprintf(forced, sizeof forced, "%s.kernel=%s", name, subject->kernels[n].name);
                conform_list_add_check(list, family->group, forced, family->check, (n + 1) * family->count + number);
            }
        }
    }
}

void conform_list_operations(struct conform_list *list, const struct conform_subject *subject) {
    add_family(list, subject, &conform_append_cases);
    add_family(list, subject, &conform_merge_cases);
    add_family(list, subject, &conform_empty_cases);
    add_family(list, subject, &conform_quantize_cases);
}

int64_t conform_operation_number(const struct conform_context *context, const struct conform_family_of_cases *family,
                                 const char **out_kernel) {
    int64_t kernel = context->test->variant / family->count;
    *out_kernel = kernel > 0 ? context->subject->kernels[kernel - 1].name : NULL;
    return context->test->variant % family->count;
}

static bool judge_refusal(struct conform_context *context, const struct conform_need *need, const char *kernel,
                          const attune_explanation *explanation) {
    int32_t shown = explanation->refusal_count < REFUSALS_MAX ? explanation->refusal_count : REFUSALS_MAX;
    for (int32_t n = 0; n < shown; n++) {
        const attune_kernel_info *row = conform_subject_find_kernel(context->subject, explanation->refusals[n].kernel);
        if (row && row_claims(row, need) && (!kernel || strcmp(kernel, row->name) == 0)) {
            return conform_outcome_fail(context->outcome, "%s claims this case and refuses it: %s", row->name,
                                        explanation->refusals[n].reason);
        }
    }
    return conform_outcome_skip(context->outcome, "%s", shown > 0 ? explanation->refusals[0].reason : "no kernel row");
}

bool conform_operation_explain(struct conform_context *context, const struct conform_need *need, const char *kernel,
                               const void *args) {
    static attune_refusal refusals[REFUSALS_MAX];
    attune_explanation explanation = attune_explanation_init();
    explanation.refusals = refusals;
    explanation.refusal_capacity = REFUSALS_MAX;
    attune_status status = attune_explain(context->subject->device, need->op, args, &explanation);
    if (!conform_outcome_expect_ok(context->outcome, "attune_explain", status)) {
        return false;
    }
    if (explanation.status != ATTUNE_OK) {
        return judge_refusal(context, need, kernel, &explanation);
    }
    conform_subject_note_kernel(context->subject, explanation.kernel, context->outcome);
    return true;
}
