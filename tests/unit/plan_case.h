/*
 * A device with one kernel row, and plans on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_PLAN_CASE_H
#define ATTUNE_TESTS_PLAN_CASE_H

#include "core/plan.h"

#include "attune/kvcache.h"
#include "core/host.h"
#include "core/schedule.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/fake_backend.h"
#include "tests/support/problems.h"

static struct fake fake;
static _Alignas(256) float memory[1 << 15];
static _Alignas(256) unsigned char scratch[1 << 14];

#define ALL_FEATURES (ATTUNE_FEATURE_ANY_TILE | ((UINT64_C(1) << ATTUNE_FEATURE_COUNT) - 1))

static inline int set_up(void **state) {
    (void)state;
    fake_init(&fake);
    fake.rows[0].features = ALL_FEATURES & ~ATTUNE_FEATURE_O_IS_Q;
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    attune_host_limit_allocations(-1);
    fake_finish(&fake);
    return 0;
}

/* B 2, S 16, H 4, D 8 */
static inline attune_forward_args usual_args(void) {
    return test_forward_args(memory, 2, 16, 4, 8);
}

static inline attune_plan *make_plan(const attune_forward_args *args) {
    attune_plan *plan = NULL;
    assert_int_equal(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, args, &plan), ATTUNE_OK);
    return plan;
}

static inline attune_status run(attune_plan *plan, const attune_forward_args *args) {
    return attune_plan_run(plan, NULL, args, scratch, 0, sizeof scratch);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
