// vitrine imatrix: collect the inputs of every matrix over a text, for quantize.
#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf/importance_matrix.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "inspect/input_squares.h"

namespace vitrine::cli {
namespace {

struct ImatrixOptions : Options {
  std::string out;
  std::vector<std::string> older;
  std::int64_t window = 512;
  std::optional<std::int64_t> chunks;
  bool head = false;
};

/// The windows of a text, one after another. A window that is not whole is left out. If the tokenizer begins a text
/// with BOS, BOS replaces the first token of every window.
class Windows {
 public:
  Windows(const ImatrixOptions& o, const Session& session, const std::string& path)
      : ids_(session.tokenizer->encode(MappedFile::open_or_read(path)->text(), SpecialTokens::none)),
        size_(static_cast<std::size_t>(o.window)) {
    const std::vector<std::int32_t> added = session.tokenizer->encode("", SpecialTokens::apply);
    const bool begins_with_bos = session.bos() && !added.empty() && added.front() == *session.bos();
    if (!o.no_special && begins_with_bos) bos_ = session.bos();
    if (bos_) ids_.insert(ids_.begin(), *bos_);
    count_ = static_cast<std::int64_t>(ids_.size() / size_);
    if (count_ == 0) throw BadInput(path, "expected at least one window of {} tokens, got {}", size_, ids_.size());
    if (o.chunks) count_ = std::min(count_, *o.chunks);
  }

  std::int64_t count() const { return count_; }
  std::optional<std::int32_t> bos() const { return bos_; }
  std::vector<std::int32_t> window(std::int64_t i) const {
    const auto first = ids_.begin() + i * static_cast<std::ptrdiff_t>(size_);
    std::vector<std::int32_t> ids(first, first + static_cast<std::ptrdiff_t>(size_));
    if (bos_) ids.front() = *bos_;
    return ids;
  }

 private:
  std::vector<std::int32_t> ids_;
  std::size_t size_;
  std::optional<std::int32_t> bos_;
  std::int64_t count_ = 0;
};

/// The experts that the text never chose.
std::vector<std::string> unreached(const ImportanceMatrix& matrix) {
  std::vector<std::string> names;
  for (const auto& [name, squares] : matrix.tensors) {
    for (std::size_t i = 0; i < squares.counts.size(); ++i) {
      if (squares.counts[i] == 0) names.push_back(fmt::format("{}, expert {}", name, i));
    }
  }
  return names;
}

/// What has been collected, with the older files.
ImportanceMatrix finished(const ImatrixOptions& o, const InputCollector& collector, const std::string& dataset,
                          const std::vector<ImportanceMatrix>& older) {
  ImportanceMatrix matrix = collector.result();
  matrix.path = o.out;
  matrix.datasets = {dataset};
  for (const ImportanceMatrix& other : older) matrix.add(other);
  return matrix;
}

void run_imatrix(const ImatrixOptions& o) {
  if (o.positionals == 0) throw MissingArgument("FILE");
  const bool has_model = o.positionals == 2;
  const Session session = open_model(o, has_model ? o.first : "", true);
  const std::string file = has_model ? o.second : o.first;
  if (session.has_encoder() || is_bidirectional(session.checkpoint.model->config())) {
    throw Unsupported("imatrix", "GGUF files of vitrine hold only models that continue texts");
  }
  const std::int64_t max_seq_len = session.checkpoint.model->config().max_seq_len;
  if (o.window > max_seq_len) {
    throw BadInput("--window", "expected at most {} tokens (the model's context), got {}", max_seq_len, o.window);
  }
  std::vector<ImportanceMatrix> older;
  for (const std::string& path : o.older) older.push_back(read_importance_matrix(path));
  const Windows windows(o, session, file);
  const GenerateContext context = session.context(o);
  InputCollector collector(context, session.checkpoint, o.head);
  finished(o, collector, file, older);  // files of another model are refused now
  stop_cleanly();
  std::int64_t n_done = 0;
  try {
    ProgressBar bar("imatrix");
    for (; n_done < windows.count(); bar.update(++n_done, windows.count())) collector.add(windows.window(n_done));
  } catch (const Interrupted&) {
    n_done = collector.result().n_chunks;
    if (n_done == 0) throw;
    write_importance_matrix(o.out, finished(o, collector, file, older));
    note(fmt::format("{} holds {} of {} windows", o.out, n_done, windows.count()));
    throw;
  }
  const ImportanceMatrix matrix = finished(o, collector, file, older);
  write_importance_matrix(o.out, matrix);
  const std::vector<std::string> missing = unreached(matrix);
  for (const std::string& name : missing) note(name + ": the text never reaches it");
  if (o.json) {
    return print_json({{"out", o.out},
                       {"windows", n_done},
                       {"window", o.window},
                       {"tokens", n_done * o.window},
                       {"chunks", matrix.n_chunks},
                       {"tensors", matrix.tensors.size()},
                       {"unreached", missing},
                       {"bos", windows.bos() ? Json(*windows.bos()) : Json(nullptr)}});
  }
  print(fmt::format("{}: the inputs of {} matrices, over {} tokens in {} windows of {}\n", o.out, matrix.tensors.size(),
                    grouped(n_done * o.window), grouped(n_done), o.window));
}

}  // namespace

void add_imatrix(Command& program) {
  const auto [command, o] =
      new_command<ImatrixOptions>(program, "imatrix", "Collect an importance matrix for quantize");
  add_positionals(command, *o, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME", "FILE",
                  "A text file; a single positional is FILE");
  command.add_option("--out", o->out, "The .gguf file to write")->required()->type_name("FILE");
  add_number<std::int64_t>(command, "--window", o->window, "Tokens per window, including BOS (default 512)", 1);
  add_number<std::int64_t>(command, "--chunks", o->chunks, "Windows to use (default: all of the text)", 1);
  command.add_flag("--head", o->head, "Collect the inputs of the unembedding, too");
  add_list(command, "--in", o->older, "An importance matrix to add, also of llama.cpp; may be repeated");
  add_modifiers(command, *o);
  finish_command(
      command, o, run_imatrix,
      "Windows are as in llama.cpp: the text is tokenized once, the last tokens that fill no window are left\n"
      "out, and BOS replaces the first token of each window if the tokenizer begins texts with it. After Ctrl-C\n"
      "the file holds the windows so far.\n"
      "Example: vitrine imatrix story.txt --window 16 --out default.imatrix.gguf");
}

}  // namespace vitrine::cli
