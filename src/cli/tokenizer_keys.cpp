#include "cli/tokenizer_keys.h"

#include "base/error.h"
#include "checkpoint/gguf/architecture.h"
#include "tokenizer/read/gguf_tokenizer_keys.h"

namespace vitrine::cli {

GgufKeys tokenizer_keys(const Options& o, const std::string& model, const Checkpoint& checkpoint,
                        std::string& why_none) {
  const std::string& path = o.tokenizer.empty() ? checkpoint.tokenizer_path : o.tokenizer;
  try {
    if (path.empty()) throw BadInput(model, "contains no tokenizer; give --tokenizer");
    return gguf_tokenizer_keys(path, {checkpoint.model->config().vocab_size, checkpoint.bos_id, checkpoint.stop_ids,
                                      gguf_architecture_of(checkpoint, model).tokenizer_keeps_merges,
                                      checkpoint.model->config().embedding.n_types});
  } catch (const BadInput& e) {
    if (!o.tokenizer.empty()) throw;
    why_none = e.what();
  } catch (const Unsupported& e) {
    if (!o.tokenizer.empty()) throw;
    why_none = e.what();
  }
  return no_gguf_tokenizer(checkpoint.tokenizer_path);
}

GgufExtras gguf_extras(GgufKeys tokenizer, const GgufSentences& sentences) {
  GgufExtras extras(std::move(tokenizer));
  extras.keys.add(sentences.keys);
  extras.dense = sentences.dense;
  return extras;
}

}  // namespace vitrine::cli
