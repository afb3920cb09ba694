/* SPDX-License-Identifier: Apache-2.0 */
#include <attune/attune.h>
#include <stdio.h>

int main(void) {
    static float q[2 * 8 * 4 * 64], k[2 * 8 * 4 * 64], v[2 * 8 * 4 * 64], o[2 * 8 * 4 * 64];
    const int64_t shape[4] = {2, 8, 4, 64}; /* batch, sequence, heads, head size */
    q[0] = k[0] = v[0] = 1.0F;              /* yours come from somewhere */
    attune_device *device = NULL;
    if (attune_device_open("cpu", &device) != ATTUNE_OK ||
        attune_forward(device, NULL,
                       ATTUNE_ARGS(attune_forward_args, .q = attune_tensor_contiguous(q, ATTUNE_DTYPE_F32, 4, shape),
                                   .k = attune_tensor_contiguous(k, ATTUNE_DTYPE_F32, 4, shape),
                                   .v = attune_tensor_contiguous(v, ATTUNE_DTYPE_F32, 4, shape),
                                   .o = attune_tensor_contiguous(o, ATTUNE_DTYPE_F32, 4, shape), .causal = true)) !=
            ATTUNE_OK) {
        fprintf(stderr, "%s\n", attune_last_error());
        return 1;
    }
    printf("o[0] = %g\n", (double)o[0]);
    attune_device_close(device);
    return 0;
}
