/* SPDX-License-Identifier: Apache-2.0 */
/* Token by token over a paged cache, against causal attention over all tokens at once. */
#include <attune/attune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 50, HEADS = 8, HEADS_KV = 2, D = 64, PAGE = 16, PAGES = 4 };

static struct { float q[TOKENS][HEADS * D], k[TOKENS][HEADS_KV * D], v[TOKENS][HEADS_KV * D]; } in;
static float k_pages[PAGES * PAGE * HEADS_KV * D], v_pages[PAGES * PAGE * HEADS_KV * D];
static float whole[TOKENS][HEADS * D], one[HEADS * D];
static int32_t table[PAGES] = {2, 0, 3, 1}, used; /* the cache's pages, in any order, and the tokens in it */

static void must(attune_status status) {
    if (status != ATTUNE_OK) {
        fprintf(stderr, "%s: %s\n", attune_status_name(status), attune_last_error());
        exit(1);
    }
}

static attune_tensor f32(float *data, int64_t batch, int64_t length, int64_t heads) {
    return attune_tensor_contiguous(data, ATTUNE_DTYPE_F32, 4, (const int64_t[]){batch, length, heads, D});
}

int main(void) {
    attune_device *device = NULL;
    double worst = 0;
    for (size_t i = 0; i < sizeof in / sizeof(float); i++) {
        ((float *)&in)[i] = (float)rand() / (float)RAND_MAX - 0.5F;
    }
    must(attune_device_open("cpu", &device)); /* the arrays above are host memory */
    must(attune_forward(device, NULL,
                        ATTUNE_ARGS(attune_forward_args, .q = f32(in.q[0], 1, TOKENS, HEADS), .causal = true,
                                    .k = f32(in.k[0], 1, TOKENS, HEADS_KV), .v = f32(in.v[0], 1, TOKENS, HEADS_KV),
                                    .o = f32(whole[0], 1, TOKENS, HEADS))));
    attune_kvcache_append_args append = attune_kvcache_append_args_init();
    append.k_cache = f32(k_pages, PAGES, PAGE, HEADS_KV);
    append.v_cache = f32(v_pages, PAGES, PAGE, HEADS_KV);
    append.page_size = PAGE;
    append.block_table = attune_tensor_contiguous(table, ATTUNE_DTYPE_I32, 2, (const int64_t[]){1, PAGES});
    append.seqused_k = attune_tensor_contiguous(&used, ATTUNE_DTYPE_I32, 1, (const int64_t[]){1});
    for (int token = 0; token < TOKENS; token++) {
        append.k_new = f32(in.k[token], 1, 1, HEADS_KV);
        append.v_new = f32(in.v[token], 1, 1, HEADS_KV);
        must(attune_kvcache_append(device, NULL, &append));
        used++;
        must(attune_forward(device, NULL,
                            ATTUNE_ARGS(attune_forward_args, .q = f32(in.q[token], 1, 1, HEADS), .k = append.k_cache,
                                        .v = append.v_cache, .o = f32(one, 1, 1, HEADS), .page_size = PAGE,
                                        .block_table = append.block_table, .seqused_k = append.seqused_k)));
        for (int i = 0; i < HEADS * D; i++) {
            worst = fmax(worst, fabs((double)one[i] - (double)whole[token][i]));
        }
    }
    attune_device_close(device);
    printf("%d tokens, one by one and at once: they differ by %.1e at most\n", TOKENS, worst);
    return worst < 1e-6 ? 0 : 1;
}
