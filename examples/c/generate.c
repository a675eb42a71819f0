/* Continues a text: generate MODEL TEXT */
#include <stdio.h>
#include <string.h>
#include <vitrine_c.h>

static int show(void* user, const char* text, size_t bytes) {
  (void)user;
  return fwrite(text, 1, bytes, stdout) != bytes; /* another value than 0 ends the call */
}

int main(int argc, char** argv) {
  vitrine_model* model = NULL;
  int32_t* ids = NULL;
  size_t n = 0;
  char* json = NULL;
  if (argc != 3) return 2;
  int code = vitrine_open(argv[1], NULL, &model);
  if (code == 0) code = vitrine_encode(model, argv[2], strlen(argv[2]), NULL, &ids, &n);
  if (code == 0) {
    code = vitrine_generate(model, ids, n, "{\"max_tokens\": 20, \"greedy\": true}", show, NULL, &json);
  }
  if (code == 0) printf("\n%s\n", json);
  if (code != 0) fprintf(stderr, "%s\n", vitrine_error());
  vitrine_free(json);
  vitrine_free(ids);
  vitrine_close(model);
  return code;
}
