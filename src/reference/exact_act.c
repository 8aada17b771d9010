/* Activations, soft cap and expert routing under the exact contracts (docs/contracts.md sections 7 and 8). */
#include "contract/exact.h"
#include "reference/exact_ops.h"

static const float log2e_f32 = 0x1.715476p+0f, quick_f32 = 0x1.3a4cbep+1f;

static float sigmoid_float(uint32_t a, bool negative) {
    ls_sigmoid_value v = ls_sigmoid(a, negative);
    return ((float)v.mantissa * 0x1p-31f) * ls_pow2(v.exponent + 31);
}

static uint32_t gelu_tanh_argument(float x) {
    float m = fabsf(x);
    int64_t i = lrintf((m < 8.0f ? m : 8.0f) * 0x1p24f), i2 = ls_rshift(i * i, 26);
    int64_t w = 0x9357611 + (INT64_C(0x6969F3DD) * i2 >> 30);
    return (uint32_t)(i * w >> 26);
}

static float gelu_exact(float x) {
    static const int32_t g[15] = {250760106, 409113249, 184597739, 4610155, -2454309, 1291434, -652221, 306625,
                                  -125654, 41108, -11597, -1015, 11198, -10435, 3076};
    float a = fabsf(x);
    int64_t t = llrintf((a < 8.0f ? a : 8.0f) * 0x1p28f) - (INT64_C(1) << 30), h = g[14];
    for (int i = 13; i >= 0; i--) h = g[i] + (h * t >> 30);
    int n = (int)(h >> 24);
    int64_t m = ls_exp2_neg((uint32_t)h << 8);
    if (signbit(x)) return ls_canon(x * (((float)m * 0x1p-31f) * ls_pow2(-n)));
    return ls_canon(x * ((float)((INT64_C(1) << 31) - ls_rshift(m, n)) * 0x1p-31f));
}

float ls_exact_act(float x, ls_act act) {
    switch (act) {
        case LS_ACT_SILU: return ls_canon(x * sigmoid_float(ls_sigmoid_argument(x, log2e_f32), signbit(x)));
        case LS_ACT_SIGMOID: return ls_canon(sigmoid_float(ls_sigmoid_argument(x, log2e_f32), signbit(x)));
        case LS_ACT_GELU_QUICK: return ls_canon(x * sigmoid_float(ls_sigmoid_argument(x, quick_f32), signbit(x)));
        case LS_ACT_GELU_TANH: return ls_canon(x * sigmoid_float(gelu_tanh_argument(x), signbit(x)));
        case LS_ACT_GELU: return gelu_exact(x);
        default: return x > 0 ? x : 0.0f;
    }
}

/* tanh of a sigmoid argument (2|x| log2 e in units of 2^-24), Q31. */
static uint32_t tanh_fixed(uint32_t a) {
    int n = (int)(a >> 24);
    int64_t m = ls_exp2_neg(a << 8);
    uint32_t d = (1u << 30) + (n + 1 > 31 ? 0u : (uint32_t)ls_rshift(m, n + 1));
    int64_t num = (INT64_C(1) << 31) - (n > 31 ? 0 : ls_rshift(m, n));
    return (uint32_t)(num * ls_recip(d) >> 31);
}

float ls_exact_tanh(float x, float factor) {
    return copysignf((float)tanh_fixed(ls_sigmoid_argument(x, factor)) * 0x1p-31f, x);
}

static const double log2e_f64 = 0x1.71547652b82fep+0;

float ls_exact_score_factor(float scale, float softcap) {
    return (float)((double)(softcap != 0 ? softcap : scale) * log2e_f64);
}

float ls_exact_softcap_factor(float scale, float cap) { return (float)(2.0 * log2e_f64 * (double)scale / (double)cap); }

float ls_exact_softcap(float x, float cap) { return ls_canon(ls_exact_tanh(x, ls_exact_softcap_factor(1.0f, cap)) * cap); }

/* exp2 of (z - m * 2^28) * 2^-28 in Q31. */
static int64_t expert_weight(int64_t d) {
    int64_t n = d >> 28;
    return n > 31 ? 0 : ls_rshift(ls_exp2_neg((uint32_t)(d << 4)), (int)n);
}

void ls_exact_route(const float *logits, const ls_moe *m, int *kept, float *score) {
    const float k = log2e_f32 * 0x1p28f;
    int64_t best = INT64_MIN, den = 0;
    for (int i = 0; i < m->experts; i++) {
        float f = logits[i] * k;
        int64_t z = llrintf(f > 0x1p58f ? 0x1p58f : f < -0x1p58f ? -0x1p58f : f);
        if (z > best) best = z;
    }
    int n = 0;
    for (int i = 0; i < m->experts; i++) {
        float f = logits[i] * k;
        int64_t w = expert_weight(best - llrintf(f > 0x1p58f ? 0x1p58f : f < -0x1p58f ? -0x1p58f : f));
        int above = 0; /* experts that come before i */
        for (int j = 0; j < m->experts; j++) above += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        if (above < m->top_k) {
            kept[n] = i;
            score[n++] = (float)w;
        }
        if (above < m->top_k || !m->normalize) den += w;
    }
    float r;
    int e;
    ls_recip_wide(den, &r, &e);
    for (int i = 0; i < n; i++) score[i] = ls_canon((score[i] * (r * 0x1p-31f)) * ls_pow2(e + 31));
}
