#include "cli/speculation_options.h"

#include "generate/draft_proposer.h"
#include "generate/lookup_proposer.h"

namespace vitrine::cli {

void add_speculation(Command& command, Options& options, SpeculationOptions& own, const char* otherwise) {
  add_choice(
      command, "--speculate", own.speculate, {"lookup", "draft", "none"},
      fmt::format("Read several tokens in a pass: those that followed the last ones earlier in the text, or those "
                  "of --draft; no result depends on it (default: {}, or draft with --draft)",
                  otherwise));
  command.add_option("--draft", own.draft, "A smaller model with the same vocabulary, which proposes tokens")
      ->type_name("MODEL");
  allow_hub(options, own.draft);
}

namespace {

/// The tokenizer of a session that was opened without it; null if it is not needed, or if there is none.
std::unique_ptr<const Tokenizer> tokenizer_to_compare(const Session& session) {
  if (session.tokenizer != nullptr || session.checkpoint.tokenizer_path.empty()) return nullptr;
  try {
    return load_tokenizer(session.checkpoint.tokenizer_path);
  } catch (const BadInput&) {
    return nullptr;
  } catch (const Unsupported&) {
    return nullptr;
  }
}

}  // namespace

OpenedSpeculation::OpenedSpeculation(const Options& options, const SpeculationOptions& own, const Session& session,
                                     const char* otherwise, ThreadPool* pool) {
  const std::string method = !own.speculate.empty() ? own.speculate : !own.draft.empty() ? "draft" : otherwise;
  if (method == "draft" && own.draft.empty()) throw UsageError("--speculate", "draft needs a model: give --draft");
  if (method != "draft" && !own.draft.empty()) {
    throw UsageError("--draft", fmt::format("--speculate {} uses no draft", method));
  }
  if (method == "lookup") speculation_ = lookup_speculation();
  if (method != "draft") return;
  Options of_draft = options;
  of_draft.adapters.clear();
  of_draft.controls.clear();
  of_draft.tokenizer.clear();
  of_draft.compute = "auto";
  of_draft.ranks = nullptr;
  draft_ = open_for_texts(of_draft, own.draft, false);
  GenerateContext draft = draft_->context(of_draft), model = session.context(options);
  if (pool != nullptr) model.pool = pool;
  draft.pool = model.pool;
  // Ids need no tokenizer; the vocabularies are compared all the same.
  own_tokenizer_ = tokenizer_to_compare(session);
  draft_tokenizer_ = tokenizer_to_compare(*draft_);
  if (own_tokenizer_ != nullptr) model.tokenizer = own_tokenizer_.get();
  if (draft_tokenizer_ != nullptr) draft.tokenizer = draft_tokenizer_.get();
  speculation_ = draft_speculation(model, draft);
}

}  // namespace vitrine::cli
