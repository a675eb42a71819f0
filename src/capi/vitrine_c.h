/* vitrine from C99: run and train transformer models, read and change every intermediate value.
 *
 * Conventions
 *   - A call that can fail returns one of the codes below. vitrine_error() is then one line that says why.
 *   - `options` is a JSON object whose keys are the program's options with _ for -, such as
 *     {"max_tokens": 8, "greedy": true}; NULL: none. An unknown key is an error. Options that may be given several
 * times are lists. JSON results are what the program prints with --json.
 *   - What a call returns through a pointer to a pointer belongs to the caller, who frees it with vitrine_free(). Such
 * a pointer may be NULL if the result is not wanted; after an error it is NULL.
 *   - Callbacks run on the calling thread. They return 0 to go on; another value ends the call with VITRINE_STOPPED.
 *     What they receive is valid only during the callback.
 *   - A model may be used by several threads at the same time, and by its own callbacks.
 *   - Texts are UTF-8. Shapes are row-major, sizes outermost first.
 */
#ifndef VITRINE_C_H
#define VITRINE_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VITRINE_API __attribute__((visibility("default")))
#else
#define VITRINE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VITRINE_DONE = 0,
  VITRINE_BAD_INPUT = 1,       /* an argument is at fault */
  VITRINE_BAD_CHECKPOINT = 2,  /* a file of a model is malformed */
  VITRINE_UNSUPPORTED = 3,     /* the input is valid, but needs a feature that vitrine lacks */
  VITRINE_OUT_OF_CAPACITY = 4, /* memory or disk is exhausted */
  VITRINE_STOPPED = 5,         /* a callback has ended the call */
  VITRINE_INTERNAL = 6         /* a bug in vitrine */
};

typedef struct vitrine_model vitrine_model;

/* Opens a Hugging Face folder, a GGUF file or a llama2.c file. Options: threads, tokenizer, pattern, compute, kv,
 * allow_config_key (list), allow_tensor (list), adapter (list of PATH[=SCALE]), control (list of
 * PATH[=SCALE][:FIRST-LAST]), sae (list of [NAME=]PATH[@SITE]), sae_use, sae_skip. */
VITRINE_API int vitrine_open(const char* path, const char* options, vitrine_model** model);
/* Frees the model; NULL is allowed. No call on it may be running. */
VITRINE_API void vitrine_close(vitrine_model* model);

/* What `vitrine info --json` prints. */
VITRINE_API int vitrine_info(const vitrine_model* model, char** json);

/* The ids of a text of `bytes` bytes, with the special tokens that the tokenizer adds. An empty text becomes BOS.
 * Options: no_special. */
VITRINE_API int vitrine_encode(const vitrine_model* model, const char* text, size_t bytes, const char* options,
                               int32_t** ids, size_t* n);
/* The text of ids, followed by a NUL, which `bytes` does not count. */
VITRINE_API int vitrine_decode(const vitrine_model* model, const int32_t* ids, size_t n, char** text, size_t* bytes);

/* Continues ids; in an encoder-decoder, writes what follows from ids, which the encoder reads. `on_text`, which may be
 * NULL, receives the text as it is generated, in whole characters. Options: those of `vitrine generate` from max_tokens
 * to logprobs, and seed; stop and prefix_ids are lists; prefix, prefix_ids, source_lang and target_lang are for an
 * encoder-decoder. */
VITRINE_API int vitrine_generate(const vitrine_model* model, const int32_t* ids, size_t n, const char* options,
                                 int (*on_text)(void* user, const char* text, size_t bytes), void* user, char** json);

/* The logits of every position, in ascending order: row t scores the token after ids[0 … t]. Not in an encoder-decoder,
 * whose logits are the site hook_logits of vitrine_run(). */
VITRINE_API int vitrine_logits(const vitrine_model* model, const int32_t* ids, size_t n,
                               int (*on_row)(void* user, int64_t position, const float* row, size_t vocab), void* user);

/* Runs ids once. `on_site` receives the values of the selected sites in the order of the forward, after any write. If
 * it returns 1, the forward continues with `replacement`, whose elements must then all have been written. Options:
 * sites (list of globs; default: all sites but those on demand), writes (list of SITE[index]=value, also *= and +=).
 * In an encoder-decoder, whose encoder reads ids, also what the decoder reads: target (a text, before which the start
 * symbol is put) or target_ids (list, with the start symbol). */
VITRINE_API int vitrine_run(const vitrine_model* model, const int32_t* ids, size_t n, const char* options,
                            int (*on_site)(void* user, const char* name, const int64_t* shape, size_t rank,
                                           const float* value, float* replacement),
                            void* user);

/* The strongest features of the option sae at each token: what `vitrine features --json` prints. Options: top. */
VITRINE_API int vitrine_features(const vitrine_model* model, const int32_t* ids, size_t n, const char* options,
                                 char** json);

/* The mean cross-entropy in nats, where position t predicts ids[t + 1], and its gradient with respect to every
 * parameter, with the file's names and shapes. `loss` may be NULL. Not in an encoder-decoder. */
VITRINE_API int vitrine_grad(const vitrine_model* model, const int32_t* ids, size_t n,
                             int (*on_gradient)(void* user, const char* name, const int64_t* shape, size_t rank,
                                                const float* value),
                             void* user, double* loss);

/* Trains as a .toml file specifies. `on_step`, which may be NULL, receives {"step","steps","loss","lr","grad_norm",
 * "tokens_per_s","val_loss"} after every step; if it ends the call, the step is saved first. Options: threads, seed,
 * tokenizer, resume. */
VITRINE_API int vitrine_train(const char* config_path, const char* options,
                              int (*on_step)(void* user, const char* json), void* user, char** json);

/* Frees a result; NULL is allowed. */
VITRINE_API void vitrine_free(void* result);
/* The message of this thread's last call that failed: `[where] expected …, got …`. Valid until the next one fails.
 */
VITRINE_API const char* vitrine_error(void);
VITRINE_API const char* vitrine_version(void); /* such as "0.1.0" */
VITRINE_API int vitrine_abi(void);             /* 1 */

#ifdef __cplusplus
}
#endif

#endif
