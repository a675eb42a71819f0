#include "ops/dictionary_run.h"

#include <algorithm>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/exchanged.h"
#include "ops/decode_features.h"
#include "ops/elementwise.h"
#include "ops/feature_scaling.h"
#include "ops/linear.h"
#include "ops/op_kind.h"
#include "ops/probe_run.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

using Value = DictionarySite;

/// A dictionary in a pass.
struct DictionaryPass {
  const Dictionary* dictionary = nullptr;
  ActiveRows active{};                   // rows where it does something
  std::vector<DictionaryUse> of_rows{};  // by row
  bool replaces = false;                 // in some row
  bool has_readers = false;              // dictionaries of later layers

  // Of the last run: what later layers read, and the input of a transcoder.
  std::vector<float> kept_input{};
  Tensor input{};
  Features clean{}, acts{};
  SparseRows delta{};
  bool is_written = false;

  /// Releases the activations. Those of a tape belong to its records, too.
  void forget() {
    clean = acts = {};
    delta = {};
  }
  bool wants(const Pass& p, Value value) const { return p.wants(dictionary->at(value)); }
  bool wants_sparse(const Pass& p) const {
    return p.taps != nullptr && p.taps->wants_sparse(dictionary->at(Value::acts_post));
  }
  bool is_wanted(const Pass& p) const {
    if (replaces || wants_sparse(p)) return true;
    return std::ranges::any_of(sites_of(*dictionary), [&](const SiteId& id) { return p.wants(id); });
  }
};

/// after − before, of each row.
SparseRows changes_of(const SparseRows& before, const SparseRows& after, const ActiveRows& active) {
  SparseRows delta;
  delta.rows.resize(before.rows.size());
  for (std::size_t t = 0; t < delta.rows.size(); ++t) {
    const auto &a = before.rows[t], &b = after.rows[t];
    for (std::size_t i = 0, j = 0; active[t] && (i < a.size() || j < b.size());) {
      const bool has_a = i < a.size() && (j == b.size() || a[i].index <= b[j].index);
      const bool has_b = j < b.size() && (i == a.size() || b[j].index <= a[i].index);
      const std::int32_t index = has_a ? a[i].index : b[j].index;
      const float change = (has_b ? b[j].value : 0.0f) - (has_a ? a[i].value : 0.0f);
      if (change != 0) delta.rows[t].push_back({index, change});
      i += has_a ? 1 : 0;
      j += has_b ? 1 : 0;
    }
  }
  return delta;
}

std::shared_ptr<const SparseRows> sparse_rows(const Pass& p, const Tensor& dense) {
  auto rows = std::make_shared<SparseRows>();
  rows->rows.resize(static_cast<std::size_t>(dense.rows()));
  for (std::int64_t t = 0; t < dense.rows() && !p.shapes_only; ++t) {
    for (std::int64_t i = 0; i < dense.row_size(); ++i) {
      const float value = dense.row(t)[i];
      if (value != 0) rows->rows[static_cast<std::size_t>(t)].push_back({static_cast<std::int32_t>(i), value});
    }
  }
  return rows;
}

/// Records a value that no op of the tape has computed.
void record_site(Pass& p, const Tensor& x) {
  if (p.is_taped() && !p.training.tape->knows(x)) p.training.tape->record("input", {}, x, [] {});
}

bool has_same_values(const float* a, const float* b, std::int64_t n) { return a == b || std::equal(a, a + n, b); }

/// One run of a dictionary at its output site.
class SiteRun {
 public:
  SiteRun(Pass& p, DictionaryPass& run, std::span<const DictionaryPass> all)
      : p_(p), run_(run), d_(*run.dictionary), all_(all) {}

  /// Copies y to `out` as a constant of a linear pass, to which the skip connection of x adds.
  void hold(const Tensor& y, const Tensor& out) {
    p_.copy(y.data, y.count(), out.data);
    std::vector<Tensor> skipped;
    if (d_.skip.present()) {
      record_site(p_, run_.input);
      const Exchanged exact(p_.compute, Compute::f32);
      skipped.push_back(product(p_, d_.skip, run_.input));
    }
    p_.record(OpKind::attach_dictionary, skipped, out, [&p = p_, skipped, out] {
      for (const Tensor& part : skipped) accumulate(p, p.grad(out), p.grad(part));
    });
  }

  /// Writes what goes on to `out`, of the shape of y.
  void run(const Tensor& y, const Tensor& out) {
    site_ = y;
    out_ = out;
    y_ = of_head(y);
    n_ = y_.rows();
    active_ = run_.active;
    read_input();
    encode();
    decode();
    finish();
  }

 private:
  /// The columns of the dictionary's head, or all, as `[T, n]`.
  Tensor of_head(const Tensor& y) {
    const Tensor rows = y.reshaped({y.rows(), y.row_size()});
    return d_.head ? columns(p_, rows, *d_.head * y.shape[2], y.shape[2]) : rows;
  }

  /// x0 is the value that the model computes, x the one after writes.
  void read_input() {
    const Tensor given = d_.is_transcoder() ? run_.input : y_;
    x0_ = given;
    if (given.data == nullptr) {
      throw Unsupported(name_of(d_.output), "the pass begins after {}, which the dictionary reads", name_of(d_.input));
    }
    record_site(p_, given);
    for (std::int64_t t = 0; t < n_ && !p_.shapes_only; ++t) {  // a sequence that has failed does not fail the others
      if (!p_.kernels.all_finite(given.row(t), given.row_size())) active_[static_cast<std::size_t>(t)] = false;
    }
    if (p_.is_taped()) {
      x0_ = p_.tensor(given.shape);
      p_.copy(given.data, given.count(), x0_.data);
      p_.record(OpKind::attach_dictionary, {given}, x0_, [&p = p_, given, x = x0_, connected = connected_] {
        if (*connected) accumulate(p, p.grad(x), p.grad(given));
      });
    }
    x_ = p_.tap(d_.at(Value::input), x0_);
    x_is_written_ = x_.data != x0_.data;
  }

  void encode() {
    const bool is_dense = p_.is_taped() || run_.wants(p_, Value::acts_pre) || run_.wants(p_, Value::acts_post);
    run_.clean = run_.acts = is_dense ? encode_dense() : encode_features(p_, d_, features_in(p_, d_, x_), active_);
    if (is_dense && clean_.rows != nullptr) run_.clean = clean_;
    if (x_is_written_) {
      run_.clean = untaped([&] { return encode_features(p_, d_, features_in(p_, d_, x0_), active_); });
    }
    run_.is_written = x_is_written_;
    run_.delta = {};
    run_.delta.rows.resize(static_cast<std::size_t>(n_));
    if (!p_.shapes_only && run_.clean.rows != run_.acts.rows) {
      run_.delta = changes_of(*run_.clean.rows, *run_.acts.rows, active_);
      run_.is_written |= std::ranges::any_of(run_.delta.rows, [](const auto& row) { return !row.empty(); });
    }
    if (run_.wants_sparse(p_)) p_.taps->visit_sparse(p_, d_.at(Value::acts_post), *run_.acts.rows);
  }

  /// Also sets clean_, the activations before writes to them.
  Features encode_dense() {
    const PreActivations pre = pre_activations(p_, d_, features_in(p_, d_, x_));
    const Tensor tapped = p_.tap(d_.at(Value::acts_pre), pre.p);
    Features features = select_features(p_, d_, {tapped, pre.q}, active_);
    clean_ = tapped.data == pre.p.data ? features : untaped([&] { return select_features(p_, d_, pre, active_); });
    const Tensor acts = p_.tap(d_.at(Value::acts_post), features.dense);
    return acts.data == features.dense.data ? features : Features{sparse_rows(p_, acts), acts};
  }

  void decode() {
    const bool wants_error = run_.wants(p_, Value::error);
    const bool has_earlier_writes =
        std::ranges::any_of(d_.earlier, [&](const EarlierDecoder& earlier) { return source(earlier.from).is_written; });
    const bool is_needed =
        wants_error || run_.wants(p_, Value::recons) || run_.replaces || p_.is_taped() || x_is_written_;
    is_written_ = run_.is_written || has_earlier_writes;
    if (!is_needed) return;
    if (wants_error || x_is_written_) {
      clean_r_ = untaped([&] { return decode_features(p_, d_, terms(true), n_); });
      clean_full_ = untaped([&] { return reconstruction(clean_r_, x0_); });
    }
    r_ = !is_written_ && clean_r_.data != nullptr && !p_.is_taped() ? clean_r_
                                                                    : decode_features(p_, d_, terms(false), n_);
    tapped_r_ = p_.tap(d_.at(Value::recons), r_);
    if (p_.is_taped() || run_.replaces || x_is_written_) full_ = reconstruction(tapped_r_, x_);
    if (!wants_error) return;
    error_ = p_.tensor(y_.shape);
    p_.for_rows(n_, y_.row_size(), [&](std::int64_t t) {
      for (std::int64_t i = 0; i < y_.row_size(); ++i) error_.row(t)[i] = y_.row(t)[i] - clean_full_.row(t)[i];
    });
    if (p_.is_taped()) p_.record(OpKind::attach_dictionary, {}, error_, [] {});
    tapped_error_ =
        p_.tap(d_.at(Value::error), error_.reshaped(d_.head ? error_.shape : site_.shape)).reshaped(y_.shape);
  }

  void finish() {
    const bool writes_r = tapped_r_.data != r_.data, writes_error = tapped_error_.data != error_.data;
    is_written_ = is_written_ || writes_r || writes_error;
    const Tensor own = d_.head ? p_.tensor(y_.shape) : out_.reshaped(y_.shape);
    const std::int64_t n = y_.row_size();
    if (is_written_ && !p_.shapes_only) add_changes();
    p_.for_rows(n_, 8 * n, [&](std::int64_t t) { finish_row(t, own.row(t)); });
    if (p_.is_taped()) record(own);
    if (!d_.head) return;
    p_.copy(site_.data, site_.count(), out_.data);
    const std::int64_t first = *d_.head * n;
    p_.for_rows(n_, n, [&](std::int64_t t) { std::copy_n(own.row(t), n, out_.row(t) + first); });
    p_.record(OpKind::attach_dictionary, {site_, own}, out_, [&p = p_, site = site_, own, out = out_, first, n] {
      const Tensor dsite = p.grad(site), down = p.grad(own), dout = p.grad(out);
      p.for_rows(out.rows(), out.row_size(), [&](std::int64_t t) {
        const float* const d = dout.row(t);
        p.kernels.add(down.row(t), d + first, n, down.row(t));
        p.kernels.add(dsite.row(t), d, first, dsite.row(t));
        const std::int64_t after = first + n;
        p.kernels.add(dsite.row(t) + after, d + after, out.row_size() - after, dsite.row(t) + after);
      });
    });
  }

  /// What writes to activations add to r.
  void add_changes() {
    sum_ = p_.filled(y_.shape, 0.0f);
    add_decoded(p_, d_.decoder, d_.decoder_factors, run_.delta, sum_);
    for (const EarlierDecoder& earlier : d_.earlier) {
      add_decoded(p_, earlier.weight, earlier.from->decoder_factors, source(earlier.from).delta, sum_);
    }
  }

  void finish_row(std::int64_t t, float* out) const {
    const std::int64_t n = y_.row_size();
    const auto row = static_cast<std::size_t>(t);
    const float* const y = y_.row(t);
    std::copy_n(y, n, out);
    const DictionaryUse use = run_.of_rows[row];
    if (!active_[row] || use == DictionaryUse::read) return;
    if (use == DictionaryUse::replace) {
      std::copy_n(full_.row(t), n, out);
      return;
    }
    if (!is_written_) return;
    if (x_is_written_ && !has_same_values(x_.row(t), x0_.row(t), x_.row_size())) {
      for (std::int64_t i = 0; i < n; ++i) out[i] += full_.row(t)[i] - clean_full_.row(t)[i];
    } else {
      const float scale = output_scale(p_, d_, x0_.row(t));
      if (sum_.data != nullptr && has_delta(row)) p_.kernels.add_scaled(sum_.row(t), n, scale, out);
      if (tapped_r_.data != r_.data && !has_same_values(tapped_r_.row(t), r_.row(t), n)) {
        for (std::int64_t i = 0; i < n; ++i) out[i] += scale * (tapped_r_.row(t)[i] - r_.row(t)[i]);
      }
    }
    if (tapped_error_.data != error_.data && !has_same_values(tapped_error_.row(t), error_.row(t), n)) {
      for (std::int64_t i = 0; i < n; ++i) out[i] += tapped_error_.row(t)[i] - error_.row(t)[i];
    }
  }

  /// With a tape: out's gradient is that of the reconstruction and of the error; in `read`, that of y, too.
  void record(const Tensor& own) {
    const DictionaryUse use = run_.of_rows.front();
    *connected_ = use == DictionaryUse::replace || use == DictionaryUse::error ||
                  (use == DictionaryUse::automatic && is_written_);
    std::vector<Tensor> inputs = {y_, full_};
    const bool has_error = tapped_error_.data != nullptr && use != DictionaryUse::replace;
    if (has_error) inputs.push_back(tapped_error_);
    p_.record(OpKind::attach_dictionary, inputs, own, [&p = p_, own, inputs, connected = connected_, active = active_] {
      const Tensor down = p.grad(own);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor dinput = p.grad(inputs[i]);
        p.for_rows(own.rows(), own.row_size(), [&](std::int64_t t) {
          const bool is_active = active[static_cast<std::size_t>(t)];
          const bool flows = i == 0 ? !is_active || !*connected : is_active;
          if (flows) p.kernels.add(dinput.row(t), down.row(t), own.row_size(), dinput.row(t));
        });
      }
    });
  }

  bool has_delta(std::size_t row) const {
    return !run_.delta.rows[row].empty() || std::ranges::any_of(d_.earlier, [&](const EarlierDecoder& earlier) {
      return !source(earlier.from).delta.rows[row].empty();
    });
  }

  /// The run of an earlier layer's dictionary.
  const DictionaryPass& source(const Dictionary* from) const {
    const auto found = std::ranges::find(all_, from, &DictionaryPass::dictionary);
    if (found != all_.end() && found->acts.rows != nullptr) return *found;
    throw Unsupported(name_of(d_.output), "the pass begins after {}, whose features the dictionary reads",
                      name_of(from->output));
  }
  std::vector<DecoderTerm> terms(bool clean) const {
    std::vector<DecoderTerm> all = {{&d_.decoder, &d_.decoder_factors, clean ? run_.clean : run_.acts}};
    for (const EarlierDecoder& earlier : d_.earlier) {
      const DictionaryPass& of = source(earlier.from);
      all.push_back({&earlier.weight, &earlier.from->decoder_factors, clean ? of.clean : of.acts});
    }
    return all;
  }

  Tensor reconstruction(const Tensor& r, const Tensor& x) {
    const Tensor full = features_out(p_, d_, r, x);
    if (!d_.skip.present()) return full;
    const Exchanged exact(p_.compute, Compute::f32);
    return add(p_, full, product(p_, d_.skip, d_.skip_reads_centered ? features_in(p_, d_, x) : x));
  }

  template <class Make>
  std::invoke_result_t<Make> untaped(Make make) {
    const Exchanged<Tape*> without_tape(p_.training.tape, nullptr);
    return make();
  }

  Pass& p_;
  DictionaryPass& run_;
  const Dictionary& d_;
  std::span<const DictionaryPass> all_;
  Tensor site_{}, out_{}, y_{}, x0_{}, x_{};
  std::int64_t n_ = 0;
  Features clean_{};
  Tensor clean_r_{}, clean_full_{}, r_{}, tapped_r_{}, full_{}, error_{}, tapped_error_{}, sum_{};
  ActiveRows active_{};  // of the run: those of finite values
  bool x_is_written_ = false, is_written_ = false;
  std::shared_ptr<bool> connected_ = std::make_shared<bool>(false);
};

class AttachedDictionaries : public AttachedSites {
 public:
  explicit AttachedDictionaries(std::vector<DictionaryPass> runs) : runs_(std::move(runs)) {}

  bool is_at(const SiteId& id) const override {
    return id.dictionary == nullptr && std::ranges::any_of(runs_, [&](const DictionaryPass& run) {
             return run.dictionary->output == id || run.dictionary->input == id;
           });
  }

  bool is_output(const SiteId& id) const override {
    return id.dictionary == nullptr && std::ranges::any_of(runs_, [&](const DictionaryPass& run) {
             return !is_probe(*run.dictionary) && run.dictionary->output == id;
           });
  }

  Tensor visit(Pass& p, const SiteId& id, const Tensor& value) override {
    Tensor result = value;
    for (DictionaryPass& run : runs_) {
      if (is_probe(*run.dictionary) || !(run.dictionary->output == id)) continue;
      const Tensor out = p.tensor(result.shape);
      {
        const PassScope scope(p);
        SiteRun site(p, run, runs_);
        p.is_taped() && p.training.linearizes ? site.hold(result, out) : site.run(result, out);
        if (!run.has_readers) run.forget();
        run.input = {};
        run.kept_input = {};
      }
      result = p.tap(run.dictionary->at(Value::output), out);
    }
    for (DictionaryPass& run : runs_) {
      if (run.dictionary->is_transcoder() && run.dictionary->input == id) keep_input(p, run, result);
      if (is_probe(*run.dictionary) && run.dictionary->output == id) run_probe(p, *run.dictionary, result);
    }
    return result;
  }

 private:
  /// The memory of a value may be used again before the output site. With a tape it lasts.
  static void keep_input(const Pass& p, DictionaryPass& run, const Tensor& value) {
    const Tensor rows = value.reshaped({value.rows(), value.row_size()});
    run.input = rows;
    if (p.is_taped() || p.shapes_only) return;
    run.kept_input.assign(rows.data, rows.data + rows.count());
    run.input.data = run.kept_input.data();
  }

  std::vector<DictionaryPass> runs_;
};

const AppliedDictionary* use_of(const Segment& segment, const Dictionary* dictionary) {
  for (const AppliedDictionary& applied : segment.modifiers.dictionaries) {
    if (applied.dictionary.get() == dictionary) return &applied;
  }
  return nullptr;
}

DictionaryPass make_dictionary_pass(Pass& p, const Dictionary& dictionary, std::span<const std::int32_t> ids) {
  DictionaryPass run{&dictionary};
  const std::vector<Segment>& segments = p.segments_of(dictionary.output.stack);
  for (const Segment& segment : segments) {
    const AppliedDictionary* const applied = use_of(segment, &dictionary);
    const DictionaryUse use = applied != nullptr ? applied->use : DictionaryUse::read;
    for (std::int64_t i = 0; i < segment.length; ++i) {
      const auto row = static_cast<std::size_t>(segment.first_row + i);
      const bool skips = applied != nullptr && applied->skipped != nullptr && row < ids.size() &&
                         std::ranges::binary_search(applied->skipped->ids, ids[row]);
      run.active.push_back(applied != nullptr && !skips);
      run.of_rows.push_back(use);
      run.replaces = run.replaces || (run.active.back() && use == DictionaryUse::replace);
    }
  }
  return run;
}

void check_dictionaries(const Pass& p, const std::vector<DictionaryPass>& runs) {
  if (runs.empty()) return;
  if (p.split != nullptr) {
    throw Unsupported("--split", "expected a model without dictionaries (--sae) and probes (--probe)");
  }
  if (p.is_taped() && p.training.recompute) throw Unsupported("dictionaries", "a pass with recompute takes none");
  const auto has_several = [](const DictionaryPass& run) {
    return std::ranges::adjacent_find(run.of_rows, std::not_equal_to()) != run.of_rows.end();
  };
  if (p.is_taped() && std::ranges::any_of(runs, has_several)) {
    throw Unsupported("dictionaries", "with gradients, all sequences of a pass use a dictionary in the same way");
  }
}

}  // namespace

void attach_dictionaries(Pass& p, std::span<const std::int32_t> ids, std::span<const std::int32_t> source) {
  p.attached = nullptr;
  std::vector<const Dictionary*> all;
  for (const std::vector<Segment>* segments : {&p.segments, &p.sources}) {
    for (const Segment& segment : *segments) {
      for (const AppliedDictionary& applied : segment.modifiers.dictionaries) {
        if (std::ranges::find(all, applied.dictionary.get()) == all.end()) all.push_back(applied.dictionary.get());
      }
    }
  }
  std::vector<DictionaryPass> runs;
  std::vector<const Dictionary*> needed;  // by dictionaries of later layers
  for (auto dictionary = all.rbegin(); dictionary != all.rend(); ++dictionary) {
    DictionaryPass run =
        make_dictionary_pass(p, **dictionary, (*dictionary)->output.stack == Stack::encoder ? source : ids);
    run.has_readers = std::ranges::find(needed, *dictionary) != needed.end();
    if (!run.is_wanted(p) && !run.has_readers) continue;
    for (const EarlierDecoder& earlier : (*dictionary)->earlier) needed.push_back(earlier.from);
    runs.insert(runs.begin(), std::move(run));
  }
  check_dictionaries(p, runs);
  if (!runs.empty()) p.attached = std::make_shared<AttachedDictionaries>(std::move(runs));
}

}  // namespace vitrine
