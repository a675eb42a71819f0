// llama.cpp's tanh GELU in float32: replaces its two functions that use a table of float16 values.
//
//   cc -O2 -shared -fPIC -I LLAMA_CPP/ggml/include -o exact_gelu.so tools/exact_gelu.c -ldl -lm
//   LD_PRELOAD="./exact_gelu.so LLAMA_CPP/libggml-base.so LLAMA_CPP/libggml-cpu.so" PROGRAM …
//
// Every other activation is passed to libggml-cpu.so. The results are in docs/agreement.md.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ggml.h"

struct ggml_compute_params {  // the beginning of ggml-cpu's
  int ith, nth;
};

typedef void (*forward)(const struct ggml_compute_params*, struct ggml_tensor*);

static long replaced;

__attribute__((destructor)) static void tell(void) { fprintf(stderr, "exact GELU: %ld calls\n", replaced); }

static float gelu(float x) {
  return 0.5f * x * (1.0f + tanhf(0.79788456080286535588f * x * (1.0f + 0.044715f * x * x)));
}

static char* row(const struct ggml_tensor* t, int64_t i) {
  const int64_t i1 = i % t->ne[1], i2 = i / t->ne[1] % t->ne[2], i3 = i / (t->ne[1] * t->ne[2]);
  return (char*)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

void ggml_compute_forward_unary(const struct ggml_compute_params* params, struct ggml_tensor* dst) {
  const struct ggml_tensor* x = dst->src[0];
  if (strcmp(ggml_op_desc(dst), "GELU") != 0 || x->type != GGML_TYPE_F32) {
    ((forward)dlsym(RTLD_NEXT, "ggml_compute_forward_unary"))(params, dst);
    return;
  }
  ++replaced;
  for (int64_t i = params->ith; i < ggml_nrows(dst); i += params->nth) {
    const float* from = (const float*)row(x, i);
    float* to = (float*)row(dst, i);
    for (int64_t j = 0; j < dst->ne[0]; ++j) to[j] = gelu(from[j]);
  }
}

void ggml_compute_forward_glu(const struct ggml_compute_params* params, struct ggml_tensor* dst) {
  const struct ggml_tensor *x = dst->src[0], *gate = dst->src[1];
  if (strcmp(ggml_op_desc(dst), "GEGLU") != 0 || x->type != GGML_TYPE_F32 || gate == NULL) {
    ((forward)dlsym(RTLD_NEXT, "ggml_compute_forward_glu"))(params, dst);
    return;
  }
  ++replaced;
  for (int64_t i = params->ith; i < ggml_nrows(dst); i += params->nth) {
    const float *from = (const float*)row(x, i), *times = (const float*)row(gate, i);
    float* to = (float*)row(dst, i);
    for (int64_t j = 0; j < dst->ne[0]; ++j) to[j] = gelu(from[j]) * times[j];
  }
}
