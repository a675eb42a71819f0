/* Calls everything of vitrine_c.h from C99, on a model folder and a training config: c99_test MODEL CONFIG */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <vitrine_c.h>

static int failures = 0;
#define EXPECT(condition)                                                                             \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      printf("%s:%d: expected %s (%s)\n", __FILE__, __LINE__, #condition, vitrine_error()); \
      ++failures;                                                                                     \
    }                                                                                                 \
  } while (0)

struct counter {
  size_t calls, limit, elements;
  float sum;
};

static int on_text(void* user, const char* text, size_t bytes) {
  struct counter* c = user;
  EXPECT(text != NULL);
  c->elements += bytes;
  return ++c->calls == c->limit;
}

static int on_row(void* user, int64_t position, const float* row, size_t vocab) {
  struct counter* c = user;
  EXPECT(position == (int64_t)c->calls);
  c->sum += row[0] + row[vocab - 1];
  return ++c->calls == c->limit;
}

static int on_tensor(void* user, const char* name, const int64_t* shape, size_t rank, const float* value) {
  struct counter* c = user;
  size_t i, n = 1;
  EXPECT(strlen(name) > 0);
  for (i = 0; i < rank; ++i) n *= (size_t)shape[i];
  c->elements += n;
  if (n > 0) c->sum += value[0] + value[n - 1];
  return ++c->calls == c->limit;
}

static int on_site(void* user, const char* name, const int64_t* shape, size_t rank, const float* value,
                   float* replacement) {
  EXPECT(replacement != NULL);
  return on_tensor(user, name, shape, rank, value) ? 7 : 0;
}

/* Replaces a value by zeros. */
static int silence(void* user, const char* name, const int64_t* shape, size_t rank, const float* value,
                   float* replacement) {
  struct counter* c = user;
  size_t i, n = 1;
  for (i = 0; i < rank; ++i) n *= (size_t)shape[i];
  if (strcmp(name, "hook_logits") == 0) {
    c->sum = value[n - 1];
    return 0;
  }
  memset(replacement, 0, n * sizeof *replacement);
  ++c->calls;
  return 1;
}

static int on_step(void* user, const char* json) {
  struct counter* c = user;
  EXPECT(strstr(json, "\"loss\":") != NULL);
  return ++c->calls == c->limit;
}

int main(int argc, char** argv) {
  struct counter c;
  vitrine_model* model = NULL;
  int32_t* ids = NULL;
  size_t n = 0, bytes = 0;
  char *text = NULL, *json = NULL;
  double loss = 0;
  float silenced;
  const char prompt[] = "Once upon a time";

  if (argc != 3) return 2;
  EXPECT(vitrine_abi() == 1);
  EXPECT(strlen(vitrine_version()) >= 5);

  EXPECT(vitrine_open("/no/such/model", NULL, &model) == VITRINE_BAD_INPUT && model == NULL);
  EXPECT(strstr(vitrine_error(), "[/no/such/model]") == vitrine_error());
  EXPECT(vitrine_open(argv[1], "{\"thread\": 1}", &model) == VITRINE_BAD_INPUT);
  EXPECT(strstr(vitrine_error(), "did you mean threads?") != NULL);
  EXPECT(vitrine_open(argv[1], "{\"threads\": 0}", &model) == VITRINE_BAD_INPUT);
  EXPECT(vitrine_open(argv[1], "[1", &model) == VITRINE_BAD_INPUT);
  EXPECT(vitrine_open(NULL, NULL, &model) == VITRINE_BAD_INPUT);
  EXPECT(vitrine_open(argv[1], NULL, NULL) == VITRINE_BAD_INPUT);
  EXPECT(vitrine_open(argv[1], "{\"compute\": \"int8\"}", &model) == VITRINE_UNSUPPORTED);
  EXPECT(vitrine_open(argv[1], "{\"threads\": 2, \"kv\": \"f32\"}", &model) == VITRINE_DONE);
  if (model == NULL) return 1;

  EXPECT(vitrine_info(model, &json) == VITRINE_DONE && strstr(json, "\"params\":") != NULL);
  vitrine_free(json);
  EXPECT(vitrine_info(NULL, &json) == VITRINE_BAD_INPUT && json == NULL);

  EXPECT(vitrine_encode(model, prompt, strlen(prompt), NULL, &ids, &n) == VITRINE_DONE && n > 0);
  EXPECT(vitrine_decode(model, ids, n, &text, &bytes) == VITRINE_DONE && strstr(text, prompt) != NULL);
  EXPECT(bytes == strlen(text));
  vitrine_free(text);
  EXPECT(vitrine_decode(model, NULL, 0, &text, NULL) == VITRINE_DONE && strlen(text) == 0);
  vitrine_free(text);

  memset(&c, 0, sizeof c);
  EXPECT(vitrine_generate(model, ids, n, "{\"max_tokens\": 8, \"greedy\": true}", on_text, &c, &json) == VITRINE_DONE);
  EXPECT(c.elements > 0 && strstr(json, "\"finish_reason\":") != NULL);
  vitrine_free(json);
  EXPECT(vitrine_generate(model, ids, n, "{\"max_tokens\": 1}", NULL, NULL, NULL) == VITRINE_DONE);
  memset(&c, 0, sizeof c);
  c.limit = 2;
  EXPECT(vitrine_generate(model, ids, n, NULL, on_text, &c, &json) == VITRINE_STOPPED && c.calls == 2 && json == NULL);
  EXPECT(vitrine_generate(model, ids, n, "{\"top_p\": 2}", NULL, NULL, &json) == VITRINE_BAD_INPUT);

  memset(&c, 0, sizeof c);
  EXPECT(vitrine_logits(model, ids, n, on_row, &c) == VITRINE_DONE && c.calls == n && isfinite(c.sum));
  memset(&c, 0, sizeof c);
  c.limit = 1;
  EXPECT(vitrine_logits(model, ids, n, on_row, &c) == VITRINE_STOPPED && c.calls == 1);
  ids[0] = -1;
  EXPECT(vitrine_logits(model, ids, n, on_row, &c) == VITRINE_BAD_INPUT);
  vitrine_free(ids);
  EXPECT(vitrine_encode(model, prompt, strlen(prompt), "{\"no_special\": true}", &ids, &n) == VITRINE_DONE);

  EXPECT(vitrine_features(model, ids, n, NULL, &json) == VITRINE_BAD_INPUT && json == NULL);
  EXPECT(strstr(vitrine_error(), "opened without dictionaries") != NULL);
  memset(&c, 0, sizeof c);
  EXPECT(vitrine_run(model, ids, n, NULL, on_site, &c) == VITRINE_DONE && c.calls > 10);
  memset(&c, 0, sizeof c);
  c.limit = 3;
  EXPECT(vitrine_run(model, ids, n, NULL, on_site, &c) == VITRINE_STOPPED && c.calls == 3);
  memset(&c, 0, sizeof c);
  EXPECT(vitrine_run(model, ids, n, "{\"sites\": [\"blocks.0.attn.hook_z\", \"hook_logits\"]}", silence, &c) == 0);
  EXPECT(c.calls == 1);
  silenced = c.sum;
  EXPECT(vitrine_run(model, ids, n, "{\"sites\": [\"hook_logits\"], \"writes\": [\"blocks.0.attn.hook_z=0\"]}", silence,
                     &c) == VITRINE_DONE);
  EXPECT(c.sum == silenced);
  EXPECT(vitrine_run(model, ids, n, "{\"sites\": [\"nope\"]}", on_site, &c) == VITRINE_BAD_INPUT);

  memset(&c, 0, sizeof c);
  EXPECT(vitrine_grad(model, ids, n, on_tensor, &c, &loss) == VITRINE_DONE && c.calls > 4 && loss > 0);
  EXPECT(vitrine_grad(model, ids, 1, on_tensor, &c, NULL) == VITRINE_BAD_INPUT);
  memset(&c, 0, sizeof c);
  c.limit = 1;
  EXPECT(vitrine_grad(model, ids, n, on_tensor, &c, NULL) == VITRINE_STOPPED);
  vitrine_free(ids);
  vitrine_close(model);
  vitrine_close(NULL);

  memset(&c, 0, sizeof c);
  c.limit = 2;
  EXPECT(vitrine_train(argv[2], "{\"threads\": 1}", on_step, &c, &json) == VITRINE_STOPPED && c.calls == 2);
  memset(&c, 0, sizeof c);
  EXPECT(vitrine_train(argv[2], "{\"threads\": 1, \"resume\": true}", on_step, &c, &json) == VITRINE_DONE);
  EXPECT(c.calls > 0 && strstr(json, "\"checkpoint\":") != NULL);
  vitrine_free(json);
  EXPECT(vitrine_train("/no/such.toml", NULL, NULL, NULL, NULL) == VITRINE_BAD_INPUT);
  vitrine_free(NULL);
  return failures > 0;
}
