// C <- min(C, A + B) the plain way: tiles of 16 x 16 of A and B in shared memory, a thread an entry of C. What a
// recursion over products was given before there were fast ones (the recursive version of Buluc, Gilbert, Budak 2010).
extern "C" __global__ void __launch_bounds__(256)
    plain_product(float *C, const float *A, const float *B, int m, int n, int k, long long c_stride, long long a_stride,
                  long long b_stride) {
    __shared__ float a[16][16], b[16][17];
    const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    float c = i < m && j < n ? C[i * c_stride + j] : 0;
    for (int first = 0; first < k; first += 16) {
        a[y][x] = i < m && first + x < k ? A[i * a_stride + first + x] : __int_as_float(0x7F800000);
        b[y][x] = j < n && first + y < k ? B[(first + y) * b_stride + j] : __int_as_float(0x7F800000);
        __syncthreads();
        for (int l = 0; l < 16; ++l) c = fminf(c, a[y][l] + b[l][x]);
        __syncthreads();
    }
    if (i < m && j < n) C[i * c_stride + j] = c;
}
