// Lenses that are trained: Jacobians against differences, maps against the logit lens, and files that are refused.
#include "inspect/trained_lens.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/safetensors.h"
#include "inspect/lens.h"
#include "inspect/stream_jacobian.h"
#include "inspect/text_pass.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kFirst = 2;  // position that counts

struct LensCase {
  explicit LensCase(const std::string& name, int threads = 2) : checkpoint(golden_checkpoint(name)), pool(threads) {
    context = {checkpoint.model.get(), &pool, &default_kernels()};
    context.compute = Compute::f32;
    ids = some_ids(*checkpoint.model, 7);
    const ModelConfig& config = checkpoint.model->config();
    d = config.width_before(config.n_layers());
    n_maps = mapped_states(LensKind::jacobian, config).n_maps;
  }

  /// `[n_maps][d · d]`
  std::vector<std::vector<float>> jacobians(std::int64_t copies) const {
    std::vector<std::vector<float>> values(static_cast<std::size_t>(n_maps),
                                           std::vector<float>(static_cast<std::size_t>(d * d)));
    std::vector<Tensor> to;
    for (std::vector<float>& own : values) to.push_back({own.data(), {d, d}});
    add_jacobians(context, ids, {kFirst, copies}, to);
    return values;
  }

  Checkpoint checkpoint;
  ThreadPool pool;
  GenerateContext context;
  std::vector<std::int32_t> ids;
  std::int64_t d = 0, n_maps = 0;
};

/// The states of the stream of a run.
std::vector<std::vector<float>> states_of_run(const LensCase& own) {
  Probe probe(*own.checkpoint.model);
  logits_of(*own.checkpoint.model, own.ids, {.taps = &probe, .compute = Compute::f32});
  std::vector<std::vector<float>> states;
  for (const SiteId& id : stream_states(own.checkpoint.model->config(), false)) {
    states.push_back(probe.values.at(name_of(id)).data);
  }
  return states;
}

/// The stream after the last block, if that before `layer` is given.
std::vector<float> last_stream(const LensCase& own, int layer, std::vector<float>& stream) {
  Arena arena;
  Pass pass = text_pass(own.context, arena, own.ids);
  pass.start = {layer, Tensor{stream.data(), {std::ssize(own.ids), own.d}}};
  std::vector<float> last;
  SiteReader reader(
      {stream_states(own.checkpoint.model->config(), false).back()},
      [&](Pass&, const SiteId&, const Tensor& value) { last.assign(value.data, value.data + value.count()); });
  pass.taps = &reader;
  own.checkpoint.model->forward(pass, own.ids);
  return last;
}

TEST(StreamJacobian, IsThatOfDifferences) {
  for (const char* const name : {"gpt2", "gemma2", "gpt_neox", "mamba2", "qwen2_moe"}) {
    SCOPED_TRACE(name);
    const LensCase own(name);
    const std::vector<std::vector<float>> states = states_of_run(own), jacobians = own.jacobians(8);
    const std::int64_t n = std::ssize(own.ids), n_valid = n - 1 - kFirst;
    for (std::int64_t layer = 0; layer < own.n_maps; ++layer) {
      const std::vector<float>& jacobian = jacobians[static_cast<std::size_t>(layer)];
      const float largest = *std::ranges::max_element(jacobian, {}, [](float x) { return std::abs(x); });
      for (std::int64_t i = 0; i < own.d; i += 5) {
        std::vector<double> column(static_cast<std::size_t>(own.d));
        constexpr float kStep = 2e-3f;
        for (std::int64_t t = kFirst; t < n - 1; ++t) {
          std::vector<float> up = states[static_cast<std::size_t>(layer) + 1], down = up;
          up[static_cast<std::size_t>(t * own.d + i)] += kStep;
          down[static_cast<std::size_t>(t * own.d + i)] -= kStep;
          const std::vector<float> above = last_stream(own, static_cast<int>(layer) + 1, up),
                                   below = last_stream(own, static_cast<int>(layer) + 1, down);
          for (std::int64_t later = kFirst; later < n - 1; ++later) {
            for (std::int64_t o = 0; o < own.d; ++o) {
              const auto at = static_cast<std::size_t>(later * own.d + o);
              column[static_cast<std::size_t>(o)] +=
                  static_cast<double>(above[at] - below[at]) / (2.0 * static_cast<double>(kStep));
            }
          }
        }
        for (std::int64_t o = 0; o < own.d; ++o) {
          EXPECT_NEAR(jacobian[static_cast<std::size_t>(o * own.d + i)],
                      column[static_cast<std::size_t>(o)] / static_cast<double>(n_valid),
                      4e-3 * (1 + std::abs(largest)))
              << layer << ": " << o << ", " << i;
        }
      }
    }
  }
}

TEST(StreamJacobian, HasTheSameBitsForAnyCopiesAndThreads) {
  for (const char* const name : {"gpt2", "gemma2", "mamba2"}) {
    SCOPED_TRACE(name);
    const auto expected = LensCase(name).jacobians(8);
    for (const int threads : {1, 3}) {
      for (const std::int64_t copies : {1, 5, 64}) {
        const auto got = LensCase(name, threads).jacobians(copies);
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i;
      }
    }
  }
}

TEST(StreamJacobian, RefusesModelsWithoutACausalStream) {
  for (const char* const name : {"pairs/t5", "masked/bert", "gemma3n", "own/gru"}) {
    EXPECT_THROW(check_jacobian(golden_checkpoint(name).model->config()), Unsupported) << name;
  }
}

/// A file of a lens.
struct LensFile {
  std::string path;
  std::int64_t d = 0;
  std::map<std::string, std::vector<float>> tensors{};
  std::string kind{};

  void fill(std::int64_t n, const std::string& weight, const std::string& bias) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<float>& w = tensors[fmt::format(fmt::runtime(weight), i)];
      w.resize(static_cast<std::size_t>(d * d));
      for (std::size_t at = 0; at < w.size(); ++at)
        w[at] = static_cast<float>(std::sin(0.3 * static_cast<double>(at))) / 10;
      if (!bias.empty()) tensors[fmt::format(fmt::runtime(bias), i)].assign(static_cast<std::size_t>(d), 0.25f);
    }
  }
  void write() {
    SafetensorsWriter file(path, header_bytes_for(tensors.size()));
    if (!kind.empty()) file.set_metadata("kind", kind);
    for (auto& [name, values] : tensors) {
      const bool is_vector = std::ssize(values) == d;
      file.add(name, {values.data(), is_vector ? Shape{d} : Shape{std::ssize(values) / d, d}});
    }
    file.commit();
  }
};

class TrainedLenses : public testing::Test {
 protected:
  LensFile file(const std::string& name) const { return {folder_ / (name + ".safetensors"), own_.d}; }
  TrainedLens read(const LensFile& from, LensKind kind) const {
    return read_trained_lens(from.path, kind, own_.checkpoint.model->config());
  }
  std::string message(const std::string& path, LensKind kind = LensKind::tuned) const {
    try {
      read_trained_lens(path, kind, own_.checkpoint.model->config());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  const TempFolder folder_;
  const LensCase own_{"gpt2"};
};

TEST_F(TrainedLenses, OfIdentitiesAreTheLogitLens) {
  LensFile zeros = file("zeros"), ones = file("ones");
  zeros.fill(2, "layers.{}", "layers.{}.bias");
  for (auto& [name, values] : zeros.tensors) std::ranges::fill(values, 0.0f);
  zeros.write();
  ones.fill(1, "layers.{}", "");
  std::ranges::fill(ones.tensors.at("layers.0"), 0.0f);
  for (std::int64_t i = 0; i < own_.d; ++i) ones.tensors.at("layers.0")[static_cast<std::size_t>(i * (own_.d + 1))] = 1;
  ones.write();
  const Lens plain = lens(own_.context, own_.ids, {3});
  for (const auto& [from, kind] : {std::pair(zeros, LensKind::tuned), std::pair(ones, LensKind::jacobian)}) {
    const TrainedLens trained = read(from, kind);
    LensOptions options{3};
    options.trained = &trained;
    const Lens found = lens(own_.context, own_.ids, options);
    const std::size_t first = kind == LensKind::tuned ? 0 : 1;
    ASSERT_EQ(found.states.size(), plain.states.size() - first);
    for (std::size_t state = 0; state < found.states.size(); ++state) {
      EXPECT_EQ(found.states[state], plain.states[state + first]);
      for (std::size_t t = 0; t < own_.ids.size(); ++t) {
        EXPECT_EQ(found.cells[state][t].kl, plain.cells[state + first][t].kl);
        EXPECT_EQ(found.cells[state][t].top.front().logit, plain.cells[state + first][t].top.front().logit);
      }
    }
  }
}

/// The distribution of a state is that of the last step on the mapped state, which is computed in float64.
TEST_F(TrainedLenses, MapStates) {
  LensFile tuned = file("tuned"), jacobian = file("jacobian"), other = file("other");
  tuned.kind = "tuned";
  tuned.fill(2, "layers.{}", "layers.{}.bias");
  jacobian.fill(1, "layers.{}", "");
  other.fill(2, "{}.weight", "{}.bias");  // the names of tuned-lens
  for (LensFile* own : {&tuned, &jacobian, &other}) own->write();
  const std::vector<std::vector<float>> states = states_of_run(own_);
  const auto expect_lens = [&](const TrainedLens& trained) {
    LensOptions options{1};
    options.trained = &trained;
    const Lens found = lens(own_.context, own_.ids, options);
    const bool is_tuned = trained.kind == LensKind::tuned;
    const std::vector<float>& w = (is_tuned ? tuned : jacobian).tensors.at("layers.0");
    const std::vector<float>& state = states[is_tuned ? 0 : 1];
    Arena arena;
    Pass pass = text_pass(own_.context, arena, own_.ids);
    const Tensor mapped = arena.tensor({std::ssize(own_.ids), own_.d});
    std::vector<std::int64_t> numbers;
    for (std::int64_t t = 0; t < mapped.rows(); ++t) {
      numbers.push_back(t);
      for (std::int64_t o = 0; o < own_.d; ++o) {
        const auto at = static_cast<std::size_t>(t * own_.d);
        double sum = is_tuned ? static_cast<double>(state[at + static_cast<std::size_t>(o)]) + 0.25 : 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(own_.d); ++i) {
          sum += static_cast<double>(w[static_cast<std::size_t>(o * own_.d) + i]) * static_cast<double>(state[at + i]);
        }
        mapped.row(t)[o] = static_cast<float>(sum);
      }
    }
    const Tensor logits = own_.checkpoint.model->head(pass, mapped, numbers);
    for (std::size_t t = 0; t < own_.ids.size(); ++t) {
      const LensToken& best = found.cells[0][t].top.front();
      EXPECT_NEAR(best.logit, logits.row(static_cast<std::int64_t>(t))[best.id], 2e-5);
    }
    EXPECT_EQ(found.cells.back()[0].kl, 0);
  };
  expect_lens(read(tuned, LensKind::tuned));
  expect_lens(read(other, LensKind::tuned));
  expect_lens(read(jacobian, LensKind::jacobian));
  const TrainedLens trained = read(tuned, LensKind::tuned);
  LensOptions options{1, {}, true};
  options.trained = &trained;
  EXPECT_THROW(lens(own_.context, own_.ids, options), Unsupported);
}

TEST_F(TrainedLenses, AreRefusedByName) {
  const auto message_of = [&](const std::string& name, const std::function<void(LensFile&)>& change) {
    LensFile own = file(name);
    own.fill(2, "layers.{}", "layers.{}.bias");
    change(own);
    own.write();
    return message(own.path);
  };
  EXPECT_EQ(message_of("fine", [](LensFile&) {}), "");
  EXPECT_THAT(message_of("missing", [](LensFile& f) { f.tensors.erase("layers.1"); }),
              HasSubstr("the tensor layers.1 is missing: expected one for each of 2 layers"));
  EXPECT_THAT(message_of("more", [](LensFile& f) { f.tensors["layers.2"] = f.tensors["layers.1"]; }),
              HasSubstr("the tensor layers.2 is not known"));
  EXPECT_THAT(message_of("nan", [](LensFile& f) { f.tensors["layers.1"][30] = NAN; }),
              HasSubstr("layers.1: expected finite numbers, row 1"));
  EXPECT_THAT(message_of("infinite", [](LensFile& f) { f.tensors["layers.0.bias"][3] = INFINITY; }),
              HasSubstr("layers.0.bias: expected finite numbers"));
  EXPECT_THAT(message_of("width", [](LensFile& f) { f.tensors["layers.0"].resize(48); }),
              HasSubstr("layers.0: expected F32, F16 or BF16 [24, 24], got F32 [2, 24]"));
  EXPECT_THAT(message_of("kind", [](LensFile& f) { f.kind = "jacobian"; }),
              HasSubstr("expected a tuned lens, got one of the kind jacobian"));
  std::ofstream(folder_ / "params.pt", std::ios::binary) << "PK\x03\x04" << std::string(26, '\0') << "archive/data.pkl";
  EXPECT_THAT(message(folder_ / "params.pt"), HasSubstr("a Python pickle can run code; save it as safetensors"));
  EXPECT_THAT(message(folder_ / "none"), HasSubstr("none"));
  EXPECT_THAT(message(folder_.path()), HasSubstr("lens.safetensors"));  // the folder has none
  std::ofstream(folder_ / "short.safetensors") << "{}";
  EXPECT_NE(message(folder_ / "short.safetensors"), "");
}

}  // namespace
}  // namespace vitrine::test
