// The kernels of the papers have no star. add_one runs before them and adds 1 to the diagonal. inspect runs after them
// and reports the vertices whose diagonal entry diverges, because a cycle improves without end.
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
