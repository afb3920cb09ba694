// SPDX-License-Identifier: Apache-2.0
// Gradients of attention in C++, held to finite differences of the forward pass.
#include <attune/attune.h>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

constexpr int64_t shape[4] = {1, 12, 2, 8}; // batch, length, heads, head size
constexpr int64_t elements = shape[0] * shape[1] * shape[2] * shape[3];

static void must(attune_status status) {
    if (status != ATTUNE_OK) {
        throw std::runtime_error(attune_last_error());
    }
}

static attune_tensor tensor(std::vector<float> &values) {
    return attune_tensor_contiguous(values.data(), ATTUNE_DTYPE_F32, 4, shape);
}

int main() try {
    std::vector<float> q(elements), k(elements), v(elements), o(elements), dout(elements, 1.0F), lse(2 * 12);
    std::vector<float> dq(elements), dk(elements), dv(elements);
    for (int64_t i = 0; i < elements; i++) {
        q[i] = std::sin(1.0F * i), k[i] = std::sin(2.5F * i), v[i] = std::cos(3.1F * i);
    }
    attune_device *device = nullptr;
    must(attune_device_open("cpu", &device));

    attune_forward_args args = attune_forward_args_init();
    const int64_t lse_shape[3] = {shape[0], shape[2], shape[1]};
    args.q = tensor(q), args.k = tensor(k), args.v = tensor(v), args.o = tensor(o), args.causal = true;
    args.lse = attune_tensor_contiguous(lse.data(), ATTUNE_DTYPE_F32, 3, lse_shape);
    must(attune_forward(device, nullptr, &args));
    attune_backward_args backward = args;
    backward.dout = tensor(dout), backward.dq = tensor(dq), backward.dk = tensor(dk), backward.dv = tensor(dv);
    must(attune_backward(device, nullptr, &backward));
    const auto sum_of_o = [&](float &element, float value) { // with one element changed
        const float before = element;
        element = value;
        must(attune_forward(device, nullptr, &args));
        element = before;
        return std::accumulate(o.begin(), o.end(), 0.0);
    };
    const float step = 1.0F / 64;
    double worst = 0;
    for (int64_t i = 0; i < elements; i += 7) {
        const double slope = (sum_of_o(k[i], k[i] + step) - sum_of_o(k[i], k[i] - step)) / (2 * step);
        worst = std::fmax(worst, std::fabs(slope - dk[i]));
    }
    attune_device_close(device);
    std::printf("dk and finite differences: they differ by %.1e at most\n", worst);
    return worst < 1e-3 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
