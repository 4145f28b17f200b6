// C <- C plus A times B in the classical way: tiles of 16 x 16 of A and B in shared memory, one thread per entry of C.
// Recursive methods used such a product before faster ones existed (the recursive version of Buluc, Gilbert, Budak
// 2010).
#include "semiring.cuh"

extern "C" __global__ void __launch_bounds__(256)
    plain_product(element *C, const element *A, const element *B, int m, int n, int k, long long c_row,
                  long long c_column, long long a_row, long long a_column, long long b_row, long long b_column) {
    __shared__ element a[16][16], b[16][17];
    const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    const bool is_inside = i < m && j < n;
    element c = is_inside ? C[i * c_row + j * c_column] : ZERO;
    for (int first = 0; first < k; first += 16) {
        a[y][x] = i < m && first + x < k ? A[i * a_row + (first + x) * a_column] : ZERO;
        b[y][x] = j < n && first + y < k ? B[(first + y) * b_row + j * b_column] : ZERO;
        __syncthreads();
        for (int l = 0; l < 16; ++l) c = plus(c, times(a[y][l], b[l][x]));
        __syncthreads();
    }
    if (is_inside) C[i * c_row + j * c_column] = c;
}
