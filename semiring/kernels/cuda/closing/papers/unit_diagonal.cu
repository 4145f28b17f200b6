// Around the kernels of the papers, which know no star: before them 1 comes in on the diagonal, after them a vertex on
// a cycle that improves without end is found there.
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256) add_one(element *A, long long stride, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) A[i * (stride + 1)] = plus(A[i * (stride + 1)], ONE);
}

extern "C" __global__ void __launch_bounds__(256)
    inspect(const element *A, long long stride, int n, unsigned *status, unsigned first) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && diverges(A[i * (stride + 1)])) atomicMin(status, first + i);
}
