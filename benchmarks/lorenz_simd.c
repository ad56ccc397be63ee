/* The Lorenz system for many members, written by hand: the time that an ensemble engine can hope for on one core.

     x' = 10 (y - x),   y' = x (rho - z) - y,   z' = x y - 8/3 z,   (x, y, z)(0) = (1, 1, 1)

   Tsitouras' 5(4) method (doi:10.1016/j.camwa.2011.06.002) with the step-size rule of diffrax's default controller:
   RMS norm of the error over atol + rtol max(|y0|, |y1|), factor 0.9 err^(-1/5) within (0.2, 10), initial step after
   Hairer, Norsett and Wanner (Solving ODEs I, II.4). Members run in SIMD lanes; a lane that reaches t1 takes the next
   member at once. GROUPS vectors are advanced side by side to hide the latency of the arithmetic. Only the state at t1
   is kept: saving on the way is what this loop leaves out.

   gcc -O3 -march=native -ffast-math -shared -fPIC [-DSINGLE] lorenz_simd.c -o lorenz_simd.so */

#include <math.h>

#ifdef SINGLE
typedef float real;
typedef int integer;
#define GUESS 1171731712 /* (1 + 1/10) x the bits of 1.0f: x^(-1/10) = 1 at x = 1 */
#else
typedef double real;
typedef long long integer;
#define GUESS 5067900660680019149LL /* (1 + 1/10) x the bits of 1.0 */
#endif

#define LANES (64 / (int)sizeof(real))
#ifndef GROUPS
#define GROUPS 2
#endif
typedef real vec __attribute__((vector_size(64)));
typedef integer mask __attribute__((vector_size(64)));

typedef struct {
    vec x, y, z;
} state;

typedef struct {
    vec t, h, rho;
    state u, k; /* k: the derivative at u, the first stage of the next step */
    integer member[LANES];
    long steps[LANES];
} group;

static inline vec select_(mask m, vec a, vec b) { return (vec)((m & (mask)a) | (~m & (mask)b)); }
static inline vec smaller(vec a, vec b) { return select_(a < b, a, b); }
static inline vec larger(vec a, vec b) { return select_(a > b, a, b); }
static inline vec magnitude(vec a) { return larger(a, -a); }

static inline state rates(state u, vec rho) {
    state d;
    d.x = (real)10 * (u.y - u.x);
    d.y = u.x * (rho - u.z) - u.y;
    d.z = u.x * u.y - (real)(8.0 / 3.0) * u.z;
    return d;
}

/* q^(-1/10), within 1e-4: a guess from the exponent's bits and three Newton steps */
static inline vec tenth_root_inverse(vec q) {
    vec bits = __builtin_convertvector((mask)q, vec);
    vec r = (vec)__builtin_convertvector((real)GUESS - (real)0.1 * bits, mask);
    for (int i = 0; i < 3; i++) {
        vec r2 = r * r, r4 = r2 * r2;
        r *= (real)1.1 - (real)0.1 * q * r4 * r4 * r2;
    }
    return r;
}

static real initial_step(const real y[3], const real f[3], real rho, real rtol, real atol) {
    real d0 = 0, d1 = 0, d2 = 0, scale[3], v[3], g[3];
    for (int i = 0; i < 3; i++) {
        scale[i] = atol + rtol * (real)fabs(y[i]);
        d0 += (y[i] / scale[i]) * (y[i] / scale[i]) / 3;
        d1 += (f[i] / scale[i]) * (f[i] / scale[i]) / 3;
    }
    d0 = (real)sqrt(d0), d1 = (real)sqrt(d1);
    real h0 = d0 < 1e-5 || d1 < 1e-5 ? (real)1e-6 : (real)0.01 * d0 / d1;
    for (int i = 0; i < 3; i++) v[i] = y[i] + h0 * f[i];
    g[0] = 10 * (v[1] - v[0]), g[1] = v[0] * (rho - v[2]) - v[1], g[2] = v[0] * v[1] - (real)(8.0 / 3.0) * v[2];
    for (int i = 0; i < 3; i++) d2 += ((g[i] - f[i]) / scale[i]) * ((g[i] - f[i]) / scale[i]) / 3;
    d2 = (real)sqrt(d2) / h0;
    real most = d1 > d2 ? d1 : d2;
    real h1 = most <= 1e-15 ? (h0 * 1e-3 > 1e-6 ? h0 * (real)1e-3 : (real)1e-6) : (real)pow(0.01 / most, 0.2);
    return 100 * h0 < h1 ? 100 * h0 : h1;
}

static void start(group *g, int lane, integer member, real rho, real rtol, real atol) {
    const real y[3] = {1, 1, 1}, f[3] = {0, rho - 2, 1 - (real)(8.0 / 3.0)};
    g->member[lane] = member, g->steps[lane] = 0;
    g->rho[lane] = rho, g->t[lane] = 0, g->h[lane] = initial_step(y, f, rho, rtol, atol);
    g->u.x[lane] = y[0], g->u.y[lane] = y[1], g->u.z[lane] = y[2];
    g->k.x[lane] = f[0], g->k.y[lane] = f[1], g->k.z[lane] = f[2];
}

#define SUM(c, ...) (u.c + h * (__VA_ARGS__))
#define STAGE(x2, y2, z2) rates((state){x2, y2, z2}, rho)

/* One step of every lane; returns whether some lane has reached t1. */
static inline mask step(group *g, real t1, real rtol, real atol) {
    state u = g->u, k1 = g->k, k2, k3, k4, k5, k6, k7, w;
    vec rho = g->rho, h = smaller(g->h, t1 - g->t);
#define A2(c) SUM(c, (real)0.161 * k1.c)
#define A3(c) SUM(c, (real)-0.008480655492356989 * k1.c + (real)0.335480655492357 * k2.c)
#define A4(c) SUM(c, (real)2.8971530571054935 * k1.c - (real)6.359448489975075 * k2.c + (real)4.3622954328695815 * k3.c)
#define A5(c) SUM(c, (real)5.325864828439257 * k1.c - (real)11.748883564062828 * k2.c + (real)7.4955393428898365 * k3.c \
                     - (real)0.09249506636175525 * k4.c)
#define A6(c) SUM(c, (real)5.86145544294642 * k1.c - (real)12.92096931784711 * k2.c + (real)8.159367898576159 * k3.c \
                     - (real)0.071584973281401 * k4.c - (real)0.028269050394068383 * k5.c)
#define A7(c) SUM(c, (real)0.09646076681806523 * k1.c + (real)0.01 * k2.c + (real)0.4798896504144996 * k3.c \
                     + (real)1.379008574103742 * k4.c - (real)3.290069515436081 * k5.c + (real)2.324710524099774 * k6.c)
#define ERROR(c) (h * ((real)-0.00178001105222577714 * k1.c - (real)0.0008164344596567469 * k2.c \
                     + (real)0.007880878010261995 * k3.c - (real)0.1447110071732629 * k4.c \
                     + (real)0.5823571654525552 * k5.c - (real)0.45808210592918697 * k6.c + (real)(1.0 / 66) * k7.c))
#define RATIO(c) (ERROR(c) / (atol + rtol * larger(magnitude(u.c), magnitude(w.c))))
    k2 = STAGE(A2(x), A2(y), A2(z));
    k3 = STAGE(A3(x), A3(y), A3(z));
    k4 = STAGE(A4(x), A4(y), A4(z));
    k5 = STAGE(A5(x), A5(y), A5(z));
    k6 = STAGE(A6(x), A6(y), A6(z));
    w = (state){A7(x), A7(y), A7(z)};
    k7 = rates(w, rho);
    vec ex = RATIO(x), ey = RATIO(y), ez = RATIO(z);
    vec squared = (ex * ex + ey * ey + ez * ez) * (real)(1.0 / 3.0) + (real)1e-30;
    mask accept = squared <= (real)1;
    vec factor = smaller(larger((real)0.9 * tenth_root_inverse(squared), (vec){} + (real)0.2), (vec){} + (real)10);
    vec t = g->t + h;
    g->t = select_(accept, select_(t > t1 * (real)(1 - 1e-7), (vec){} + t1, t), g->t);
    g->h = h * factor;
    g->u = (state){select_(accept, w.x, u.x), select_(accept, w.y, u.y), select_(accept, w.z, u.z)};
    g->k = (state){select_(accept, k7.x, k1.x), select_(accept, k7.y, k1.y), select_(accept, k7.z, k1.z)};
    return g->t >= t1;
}

/* States at t1 of `members` members, (member, 3), row by row; returns the number of steps tried by all of them. */
long solve(const real *rho, long members, double t1, double rtol, double atol, real *out) {
    group groups[GROUPS];
    long next = 0, live = 0, total = 0;
    for (int j = 0; j < GROUPS; j++)
        for (int lane = 0; lane < LANES; lane++, next++) {
            start(&groups[j], lane, next < members ? next : -1, next < members ? rho[next] : 1, rtol, atol);
            live += next < members;
        }
    while (live > 0) {
        mask done[GROUPS];
        for (int j = 0; j < GROUPS; j++) done[j] = step(&groups[j], t1, rtol, atol);
        for (int j = 0; j < GROUPS; j++) {
            group *g = &groups[j];
            total += LANES;
            integer any = 0;
            for (int lane = 0; lane < LANES; lane++) any |= done[j][lane];
            if (!any) continue;
            for (int lane = 0; lane < LANES; lane++) {
                if (!done[j][lane]) continue;
                if (g->member[lane] >= 0) {
                    real *row = out + 3 * g->member[lane];
                    row[0] = g->u.x[lane], row[1] = g->u.y[lane], row[2] = g->u.z[lane];
                    live--;
                }
                if (next < members)
                    start(g, lane, next, rho[next], rtol, atol), next++, live++;
                else
                    start(g, lane, -1, 1, rtol, atol); /* runs along until the others are done */
            }
        }
    }
    return total;
}
