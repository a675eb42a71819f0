// vitrine encode: one vector for each text.
#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/sentence_transformers.h"
#include "checkpoint/npy.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/texts.h"
#include "generate/encode.h"

namespace vitrine::cli {
namespace {

struct EncodeCommandOptions : Options {
  std::string pool, out, prompt_name;
  bool lines = false, no_normalize = false;
  std::int64_t batch = 32;
};

constexpr std::size_t kBatchesAtOnce = 16;  // sorted by length together

class Output {
 public:
  Output(const EncodeCommandOptions& o, std::int64_t d) : o_(o), d_(d) {}

  void add(const std::vector<std::int32_t>& ids, const std::vector<float>& vector) {
    if (!o_.out.empty()) all_.insert(all_.end(), vector.begin(), vector.end());
    if (!o_.out.empty() && !o_.json) return;
    if (o_.json) {
      print(Json({{"ids", ids}, {"embedding", vector}}).dump() + "\n");
    } else {
      print(fmt::format("{}\n", fmt::join(vector, " ")));
    }
  }
  void finish() {
    if (o_.out.empty()) return;
    const auto rows = static_cast<std::int64_t>(all_.size()) / d_;
    NpyWriter writer(o_.out, rows, d_);
    if (rows > 0) writer.add({all_.data(), {rows, d_}});
    writer.commit();
    if (!o_.json) print(o_.out + ": float32 " + to_string(Shape{rows, d_}) + "\n");
  }

 private:
  const EncodeCommandOptions& o_;
  std::int64_t d_;
  std::vector<float> all_;
};

void run_encode(const EncodeCommandOptions& o) {
  const bool reads_lines = o.lines && !o.has_ids();
  if (o.positionals == 0 && !o.lines && !o.has_ids()) throw MissingArgument("TEXT");
  const bool has_model = o.positionals == 2 || ((o.lines || o.has_ids()) && o.positionals == 1);
  const Session session = open_for_texts(o, has_model ? o.first : "", !o.lines && !o.has_ids());
  const ModelConfig& model = session.checkpoint.model->config();
  SentenceConfig config = read_sentence_config(session.checkpoint.tokenizer_path, session.tokenizer.get(),
                                               model.encoder ? model.encoder->max_seq_len : model.max_seq_len);
  if (!o.prompt_name.empty()) config.use_prompt(o.prompt_name, "--prompt-name");
  EncodeOptions options;
  options.pooling = pooling_named(o.pool.empty() ? config.pooling : o.pool);
  options.normalize = config.normalize && !o.no_normalize;
  options.max_rows = std::max<std::int64_t>(1, o.batch) * 64;
  stop_cleanly();
  Output output(o, model.encoder ? model.encoder->d_model : model.d_model);
  std::int64_t n_cut = 0;
  const auto encode_all = [&](std::vector<std::vector<std::int32_t>> texts) {
    for (auto& ids : texts) {
      if (std::ssize(ids) > config.max_tokens) ++n_cut;
      ids = truncated(std::move(ids), config);
    }
    std::vector<std::vector<float>> vectors(texts.size());
    encode(session.context(o), texts, options,
           [&](std::size_t i, std::span<const float> vector) { vectors[i].assign(vector.begin(), vector.end()); });
    for (std::size_t i = 0; i < texts.size(); ++i) output.add(texts[i], vectors[i]);
  };
  if (o.has_ids()) {
    encode_all({o.ids});
  } else {
    const std::string text = o.positionals == 2 ? o.second : o.first;
    TextReader reader(reads_lines ? "-" : text, !o.lines && text != "-");
    std::int64_t number = 0;
    const std::size_t at_once = static_cast<std::size_t>(o.batch) * kBatchesAtOnce;
    for (auto lines = reader.next(at_once); !lines.empty(); lines = reader.next(at_once)) {
      std::vector<std::vector<std::int32_t>> texts;
      for (const std::string& line : lines) {
        texts.push_back(ids_of_line(session, o, o.lines, line, ++number,
                                    [&](const std::string& given) { return config.prepared(given); }));
      }
      encode_all(std::move(texts));
    }
  }
  if (n_cut > 0) note(fmt::format("{} of the texts were cut to {} tokens", grouped(n_cut), config.max_tokens));
  output.finish();
}

}  // namespace

void add_encode(Command& program) {
  const auto [command, o] =
      new_command<EncodeCommandOptions>(program, "encode", "Show a vector for each line of a text: its embedding");
  add_model_and_text(command, *o);
  o->takes_one_model = [&lines = o->lines] { return lines; };
  command.add_flag("--lines", o->lines, "Read a JSON string, or a list of ids, from each line of stdin");
  add_choice(command, "--pool", o->pool, {"mean", "cls", "max", "last", "pooler"},
             "How rows become one vector: mean, cls, max, last or pooler (default: the model's, else mean)");
  command.add_option("--prompt-name", o->prompt_name,
                     "Put this prompt of config_sentence_transformers.json before each text (default: the model's)");
  command.add_flag("--no-normalize", o->no_normalize, "Do not divide vectors by their lengths");
  add_number<std::int64_t>(command, "--batch", o->batch, "Texts to encode at once (default: 32)", 1, 4096);
  command.add_option("--out", o->out, "Also write the vectors to this .npy file: float32 [n, d_model]");
  finish_command(command, o, run_encode,
                 "TEXT - reads stdin, a text a line. Pooling and normalization of a sentence-transformers folder are "
                 "the defaults.\n"
                 "Example: vitrine encode \"A girl plays in the garden.\" --json");
}

}  // namespace vitrine::cli
