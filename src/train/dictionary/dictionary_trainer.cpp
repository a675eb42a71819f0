#include "train/dictionary/dictionary_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "checkpoint/load.h"
#include "features/load_dictionary.h"
#include "train/dictionary/activation_file.h"
#include "train/dictionary/activation_stream.h"
#include "train/dictionary/dictionary_learner.h"
#include "train/step_run.h"

namespace vitrine {
namespace {

/// A dictionary of the run, and where a row has its values.
struct LearnedSite {
  std::string name;  // of the site that it reconstructs
  std::int64_t first_in = 0, first_out = 0;
  std::unique_ptr<LearnedDictionary> dictionary{};
  std::unique_ptr<DictionaryLearner> learner{};
  ActivationFactors factors{};
};

std::string reconstructed_site(const LearnedOptions& options) {
  return options.site_out.empty() ? options.site : options.site_out;
}

class DictionaryRun final : public StepLearner {
 public:
  DictionaryRun(const TrainConfig& c, const TrainRun& run) : c_(c), run_(run), pool_(run.threads) {
    open_source();
    for (std::size_t i = 0; i < dictionaries_.size(); ++i) open_dictionary(i);
    rows_.resize(static_cast<std::size_t>(c_.train.batch * source_->row_size()));
  }

  std::int64_t n_steps() const override { return c_.train.steps; }
  std::vector<std::string> plan() const override;
  void begin() override { find_factors(); }
  Step step(std::int64_t number) override;
  std::vector<OptimizerArray> arrays() override;
  RunWords words() const override;
  Json more() override;
  void set_more(const Json& more) override;
  void write(const std::string& folder) override;

 private:
  void tell(const std::string& line) const {
    if (run_.tell) run_.tell(line);
  }
  void check_interrupt() const {
    if (run_.interrupt != nullptr && run_.interrupt->load()) throw Interrupted();
  }
  bool is_alone() const { return dictionaries_.size() == 1; }
  /// Begins the names of what a dictionary has in metrics and states.
  std::string prefix_of(const LearnedSite& own) const { return is_alone() ? "" : own.name + "/"; }
  double rate_of(const LearnedSite& own, std::int64_t step) const {
    if (c_.sae->has_schedule) return learning_rate(c_.schedule, step);
    return learning_rate(own.dictionary->options().rate, step, c_.train.steps);
  }

  void open_source();
  void open_model(const std::vector<std::string>& names, std::vector<std::int64_t>& widths);
  void open_dictionary(std::size_t number);
  std::vector<Tensor> columns_of(const LearnedSite& own, Arena& arena);
  void find_factors();

  const TrainConfig& c_;
  const TrainRun& run_;
  const Kernels& kernels_ = default_kernels();
  ThreadPool pool_;
  std::shared_ptr<const Model> model_;          // null for rows of a file
  std::unique_ptr<const TrainingData> corpus_;  // the same
  std::unique_ptr<ActivationSource> source_;
  std::vector<LearnedSite> dictionaries_;
  std::vector<float> rows_;  // of a step
};

std::vector<std::string> DictionaryRun::plan() const {
  std::vector<std::string> lines;
  for (const LearnedSite& own : dictionaries_) {
    const Dictionary& d = own.dictionary->dictionary();
    lines.push_back(fmt::format("{}: {}, {} features, {} to {}", own.name.empty() ? "activations" : own.name,
                                d.architecture, d.d_sae(), d.d_in(), d.d_out()));
  }
  lines.push_back(source_->plan());
  return lines;
}

/// The places of the values in a row, and the source.
void DictionaryRun::open_source() {
  const std::vector<LearnedOptions>& all = c_.sae->dictionaries;
  const ActivationOptions& activations = c_.sae->activations;
  std::vector<std::int64_t> widths;
  std::vector<std::string> names;
  const auto number_of = [&](const std::string& name) {
    const std::ptrdiff_t number = std::ranges::find(names, name) - names.begin();
    if (number == std::ssize(names)) names.push_back(name);
    return number;
  };
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> sites;  // of each dictionary: input, output
  for (const LearnedOptions& own : all) {
    const std::ptrdiff_t in = number_of(own.site);
    sites.emplace_back(in, own.site_out.empty() ? in : number_of(own.site_out));
  }
  if (!c_.data.activations.empty()) {
    if (all.size() > 1) throw BadInput("sae", "data.activations are those of one dictionary, got {}", all.size());
    const bool has_targets = !all.front().site_out.empty();
    source_ = std::make_unique<ActivationFile>(c_.data.activations, has_targets, activations.is_shuffled, c_.train.seed,
                                               c_.train.batch, pool_, kernels_);
    widths = source_->widths();
    sites = {{0, std::ssize(widths) - 1}};
  } else {
    open_model(names, widths);
  }
  const auto place_of = [&](std::ptrdiff_t site) {
    std::int64_t first = 0;
    for (std::ptrdiff_t i = 0; i < site; ++i) first += widths[static_cast<std::size_t>(i)];
    return first;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    dictionaries_.push_back({reconstructed_site(all[i]), place_of(sites[i].first), place_of(sites[i].second)});
  }
}

void DictionaryRun::open_model(const std::vector<std::string>& names, std::vector<std::int64_t>& widths) {
  const ActivationOptions& activations = c_.sae->activations;
  model_ = load_checkpoint(c_.model.checkpoint).model;
  if (model_->config().encoder) throw Unsupported(c_.model.checkpoint, "[sae] reads no encoder–decoder");
  TrainConfig corpus = c_;
  corpus.train.seq_len = activations.context;
  corpus.train.batch = activations.sequences;
  if (activations.context > model_->config().max_seq_len) {
    throw BadInput("sae.context", "expected at most {} tokens (the model's context), got {}",
                   model_->config().max_seq_len, activations.context);
  }
  corpus_ = open_corpus(corpus, model_->config(), Json::object());
  ActivationStreamOptions options;
  for (const DictionarySiteOf& site : dictionary_sites("sae", names, *model_, pool_)) {
    options.sites.push_back(site.id);
    widths.push_back(site.width);
  }
  options.activations = activations;
  options.batch = c_.train.batch;
  options.seed = c_.train.seed;
  source_ = std::make_unique<ActivationStream>(*model_, *corpus_, options, widths, pool_, kernels_, run_.interrupt,
                                               run_.poll);
}

void DictionaryRun::open_dictionary(std::size_t number) {
  const LearnedOptions& options = c_.sae->dictionaries[number];
  LearnedSite& own = dictionaries_[number];
  const auto width_at = [&](std::int64_t first) {
    std::int64_t at = 0;
    for (const std::int64_t width : source_->widths()) {
      if (at == first) return width;
      at += width;
    }
    throw InternalError("dictionary_trainer", "no site begins at column {}", first);
  };
  const std::int64_t d_in = width_at(own.first_in), d_out = width_at(own.first_out);
  std::shared_ptr<const Dictionary> start;
  if (!options.shape.start.empty()) start = read_dictionary(options.shape.start);
  const std::int64_t d_sae = options.shape.d_sae > 0 ? options.shape.d_sae : start->d_sae();
  own.dictionary = std::make_unique<LearnedDictionary>(options, d_in, d_out, d_sae);
  if (start != nullptr) {
    own.dictionary->copy(*start, options.shape.start, pool_, kernels_);
  } else {
    own.dictionary->draw(c_.train.seed + number);
  }
  own.learner =
      std::make_unique<DictionaryLearner>(*own.dictionary, c_.optimizer, pool_, kernels_, run_.interrupt, run_.poll);
}

/// x and y of a dictionary, times their factors.
std::vector<Tensor> DictionaryRun::columns_of(const LearnedSite& own, Arena& arena) {
  const std::int64_t row_size = source_->row_size(), n = c_.train.batch;
  const auto take = [&](std::int64_t first, std::int64_t width, double factor) {
    if (width == row_size && factor == 1) return Tensor{rows_.data(), {n, width}};
    const Tensor to = arena.tensor({n, width});
    pool_.parallel_for(n, 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) {
        kernels_.scale(rows_.data() + t * row_size + first, width, static_cast<float>(factor), to.row(t));
      }
    });
    return to;
  };
  const Dictionary& d = own.dictionary->dictionary();
  const Tensor x = take(own.first_in, d.d_in(), own.factors.input);
  if (own.dictionary->options().site_out.empty()) return {x, x};
  return {x, take(own.first_out, d.d_out(), own.factors.output)};
}

/// Factors by which rows have the mean norm √d, estimated on the first batches.
void DictionaryRun::find_factors() {
  const auto has_factor = [](const LearnedSite& own) {
    return own.dictionary->options().shape.normalization == InputScaling::Kind::factor;
  };
  std::int64_t n = 0;
  for (const LearnedSite& own : dictionaries_) {
    if (has_factor(own)) n = std::max(n, std::min(own.dictionary->options().norm_batches, c_.train.steps));
  }
  const std::int64_t row_size = source_->row_size();
  std::map<std::int64_t, double> sums;  // of norms, by the first column
  for (std::int64_t i = 0; i < n; ++i) {
    check_interrupt();
    source_->read(i, {rows_.data(), {c_.train.batch, row_size}});
    std::int64_t first = 0;
    for (const std::int64_t width : source_->widths()) {
      for (std::int64_t t = 0; t < c_.train.batch; ++t) {
        sums[first] += std::sqrt(kernels_.sum_squares(rows_.data() + t * row_size + first, width, 0));
      }
      first += width;
    }
  }
  for (LearnedSite& own : dictionaries_) {
    if (!has_factor(own)) continue;
    const auto factor_of = [&](std::int64_t first, std::int64_t width) {
      const double mean = sums[first] / static_cast<double>(n * c_.train.batch);
      if (!(mean > 0)) throw BadInput("sae.normalize_activations", "the norm of the activations is {}", mean);
      return std::sqrt(static_cast<double>(width)) / mean;
    };
    const Dictionary& d = own.dictionary->dictionary();
    own.factors = {factor_of(own.first_in, d.d_in()), factor_of(own.first_out, d.d_out())};
    tell(fmt::format("{}: activations are multiplied by {:.6g}", own.name, own.factors.input));
  }
}

StepLearner::Step DictionaryRun::step(std::int64_t number) {
  source_->read(number, {rows_.data(), {c_.train.batch, source_->row_size()}});
  std::vector<DictionaryLearner::Step> steps;
  Arena arena;
  for (LearnedSite& own : dictionaries_) {
    const ArenaScope scope(arena);
    const std::vector<Tensor> xy = columns_of(own, arena);
    steps.push_back(own.learner->forward_backward(xy[0], xy[1], number));
    check_interrupt();
  }
  Step result;
  result.n_rows = c_.train.batch;
  std::vector<Metric>& line = result.metrics;
  line = {{"loss", 0}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    LearnedSite& own = dictionaries_[i];
    DictionaryLearner::Step& step = steps[i];
    const double lr = rate_of(own, number);
    own.learner->update(step, lr);
    const std::string prefix = prefix_of(own);
    line.front().value += step.loss;
    if (!is_alone()) line.push_back({prefix + "loss", step.loss});
    for (const Metric& term : step.terms) line.push_back({prefix + term.name, term.value});
    line.push_back({prefix + "lr", lr});
    line.push_back({prefix + "grad_norm", step.grad_norm});
    if (!step.skipped.empty()) result.skipped = step.skipped;
  }
  result.loss = line.front().value;
  return result;
}

std::vector<OptimizerArray> DictionaryRun::arrays() {
  std::vector<OptimizerArray> all;
  for (LearnedSite& own : dictionaries_) {
    const std::string prefix = prefix_of(own);
    for (const TrainParam& param : own.dictionary->params()) {
      all.push_back(
          {prefix + "param." + param.name, &param.shape, {param.value, static_cast<std::size_t>(param.count())}});
    }
    for (OptimizerArray array : own.learner->optimizer().state(own.dictionary->params())) {
      array.name = prefix + array.name;
      all.push_back(array);
    }
    std::vector<float>& since = own.learner->since_active();
    all.push_back({prefix + "since_active", &own.dictionary->params()[1].shape, since});
  }
  return all;
}

RunWords DictionaryRun::words() const {
  RunWords words{c_.sae->fixed, c_.sae->free};
  words.fixed["batch"] = c_.train.batch;
  words.fixed["seed"] = c_.train.seed;
  words.fixed["data"] = fmt::format("{:016x}", source_->fingerprint());
  words.free["steps"] = c_.train.steps;
  return words;
}

Json DictionaryRun::more() {
  Json more;
  for (LearnedSite& own : dictionaries_) {
    more.push_back({{"optimizer_steps", own.learner->optimizer().steps()},
                    {"topk_threshold", own.dictionary->topk_threshold},
                    {"factors", {own.factors.input, own.factors.output}}});
  }
  return more;
}

void DictionaryRun::set_more(const Json& all) {
  for (std::size_t i = 0; i < dictionaries_.size(); ++i) {
    const Json& more = all.at(i);
    dictionaries_[i].learner->optimizer().set_steps(more.at("optimizer_steps").get<std::int64_t>());
    dictionaries_[i].dictionary->topk_threshold = more.at("topk_threshold").get<double>();
    dictionaries_[i].factors = {more.at("factors").at(0).get<double>(), more.at("factors").at(1).get<double>()};
  }
}

void DictionaryRun::write(const std::string& folder) {
  for (LearnedSite& own : dictionaries_) {
    const LearnedOptions& options = own.dictionary->options();
    const std::string model = std::filesystem::path(c_.model.checkpoint).filename().string();
    const DictionaryOrigin origin{options.site, options.site_out, model,
                                  model_ != nullptr ? c_.sae->activations.context : 0};
    std::string path = folder;
    if (!is_alone()) {
      path += own.name;
      std::error_code error;
      std::filesystem::create_directory(path, error);  // the writer reports errors
    }
    own.dictionary->write(origin, own.factors, path, pool_, kernels_);
  }
}

}  // namespace

TrainResult train_dictionaries(const TrainConfig& config, const TrainRun& run) {
  if (run.ranks != nullptr && !run.ranks->is_alone()) throw Unsupported("train", "[sae] is trained by one rank");
  StepRun steps(config, run);
  DictionaryRun learner(config, run);
  return steps.run(learner);
}

}  // namespace vitrine
