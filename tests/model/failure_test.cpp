// If a sequence has values that are not finite, only that sequence fails: the bits of the others in the pass do not
// change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "kernels/quantize.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

constexpr std::int32_t kPoison = 11;  // the token id that only the failing sequence uses
constexpr float kMax = std::numeric_limits<float>::max();

/// A golden model with copies of its parameters. Rows of whole blocks may become Q8_0.
class EditedModel {
 public:
  using Edit = std::function<void(const std::string& name, const Shape& shape, float* values)>;

  EditedModel(const std::string& golden, const Edit& edit, bool quantize)
      : checkpoint_(golden_checkpoint(golden)), params_(checkpoint_.model->params()) {
    for_each_param(checkpoint_.model->config(), params_,
                   [&](Param& param, const std::string& name, const Shape& shape) {
                     MatrixView& view = param.view;
                     std::vector<float>& values = values_.emplace_back();
                     for (std::int64_t r = 0; r < view.rows; ++r) {
                       for (std::int64_t c = 0; c < view.cols; ++c) {
                         default_kernels().widen(view.at(r, c), view.dtype, 1, &values.emplace_back());
                       }
                     }
                     edit(name, shape, values.data());
                     view = view_of(values.data(), view.rows, view.cols, view.cols);
                     if (quantize && name.starts_with("blocks.") && view.rows > 1 && view.cols % 32 == 0)
                       to_blocks(view);
                   });
    model_.emplace(checkpoint_.model->config(), params_, std::vector<std::shared_ptr<const void>>{});
  }

  const Model& operator*() const { return *model_; }
  int n_quantized = 0;

 private:
  void to_blocks(MatrixView& view) {
    std::vector<std::byte>& bytes =
        blocks_.emplace_back(static_cast<std::size_t>(bytes_of(DType::q8_0, view.rows * view.cols)));
    quantize_rows(default_kernels(), DType::q8_0, reinterpret_cast<const float*>(view.data), view.rows, view.cols,
                  nullptr, bytes.data(), "test");
    view.data = bytes.data();
    view.dtype = DType::q8_0;
    ++n_quantized;
  }

  Checkpoint checkpoint_;
  ModelParams params_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<std::byte>> blocks_;
  std::optional<Model> model_;
};

/// Fills the embedding of kPoison.
EditedModel::Edit poison(float first, float rest) {
  return [=](const std::string& name, const Shape& shape, float* values) {
    if (name != "embed.weight") return;
    std::fill_n(values + kPoison * shape[1], shape[1], rest);
    values[kPoison * shape[1]] = first;
  };
}

/// The norm of a one-hot row is sqrt(d) at its one, more than any other row reaches. So a weight close to the largest
/// float over sqrt(d) overflows for kPoison alone.
EditedModel::Edit overflow(const std::string& norm, const std::string& weight) {
  return [=, one_hot = poison(1e6F, 0)](const std::string& name, const Shape& shape, float* values) {
    one_hot(name, shape, values);
    if (name == norm) std::fill_n(values, shape.count(), 1.0f);
    if (name == weight) values[0] = 1.05f * (kMax / std::sqrt(static_cast<float>(shape[1])));
  };
}

struct Case {
  std::string golden, place;
  EditedModel::Edit edit;
  bool quantize = false;
};

std::vector<Case> cases() {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  return {
      {"llama_mha", "hook_embed", poison(nan, 0)},
      {"llama_mha", "unembed.hook_out", overflow("ln_final.weight", "unembed.weight")},
      {"gpt_neox", "hook_embed", poison(0, -inf), true},
      {"gpt_neox", "blocks.0.hook_resid_post", poison(kMax, kMax / 2), true},
      {"gpt_neox", "blocks.0.hook_resid_post", poison(kMax, kMax / 2)},
      {"mixtral", "hook_embed", poison(inf, 0)},
      // A logit of infinity makes all weights of the experts NaN.
      {"mixtral", "blocks.1.hook_resid_post", overflow("blocks.1.ln2.weight", "blocks.1.mlp.router.weight")},
  };
}

/// One sequence of a batch, fed in chunks.
struct Fed {
  std::vector<std::int32_t> ids;
  std::int64_t chunk;
  std::optional<KvCache> cache;
  std::vector<float> logits;
  std::optional<Failure> failure;
};

/// A pass over the next chunk of each sequence that has neither ended nor failed. False where there is none.
bool feed(const Model& model, const Kernels& kernels, std::vector<Fed>& sequences, LogitRequest::Rows rows) {
  ThreadPool pool(2);
  Arena arena;
  Pass pass{{pool, kernels, arena}, {}};
  std::vector<std::int32_t> ids;
  std::vector<Fed*> of_segment, of_row;
  for (Fed& s : sequences) {
    const std::int64_t past = s.cache->length(), n = std::min(s.chunk, s.cache->capacity() - past);
    if (n == 0 || s.failure) continue;
    pass.segments.push_back({static_cast<std::int64_t>(ids.size()), n, past, &*s.cache});
    ids.insert(ids.end(), s.ids.begin() + past, s.ids.begin() + past + n);
    of_segment.push_back(&s);
    of_row.insert(of_row.end(), static_cast<std::size_t>(n), &s);
  }
  if (ids.empty()) return false;
  const auto& owner = rows == LogitRequest::Rows::range ? of_row : of_segment;
  pass.logits = {rows, 0, static_cast<std::int64_t>(ids.size()), [&](std::int64_t first, const Tensor& t) {
                   for (std::int64_t row = 0; row < t.rows(); ++row) {
                     std::vector<float>& out = owner[static_cast<std::size_t>(first + row)]->logits;
                     out.insert(out.end(), t.row(row), t.row(row) + t.row_size());
                   }
                 }};
  model.forward(pass, ids);
  for (std::size_t i = 0; i < of_segment.size(); ++i) of_segment[i]->failure = pass.segments[i].failure;
  return true;
}

std::vector<Fed> batch_of_three(const Model& model) {
  std::vector<Fed> batch;
  for (const std::int64_t chunk : {2, 3, 4}) {
    std::vector<std::int32_t> ids = some_ids(model, 8 + chunk, static_cast<std::uint64_t>(chunk));
    for (std::int32_t& id : ids) id = id == kPoison ? 3 : id;
    const auto n = static_cast<std::int64_t>(ids.size());
    batch.push_back({std::move(ids), chunk, model.make_cache(n, KvType::f32), {}, {}});
  }
  batch[1].ids[5] = kPoison;  // the last row of its second chunk
  return batch;
}

TEST(Failure, OfOneSequenceLeavesTheOthersTheirBits) {
  for (const Case& c : cases()) {
    const EditedModel edited(c.golden, c.edit, c.quantize);
    EXPECT_EQ(edited.n_quantized > 0, c.quantize);
    for (const Isa isa : available_isas()) {
      for (const auto rows : {LogitRequest::Rows::range, LogitRequest::Rows::last_of_segments}) {
        const std::string place = c.golden + " " + c.place + " " + std::string(name_of(isa));
        std::vector<Fed> together = batch_of_three(*edited);
        while (feed(*edited, kernels_for(isa), together, rows)) {
        }
        ASSERT_TRUE(together[1].failure) << place;
        EXPECT_EQ(name_of(together[1].failure->where), c.place);
        EXPECT_EQ(together[1].failure->row, 2 + 2) << place << ": two rows of sequence 0, then position 5 of 3 … 5";
        EXPECT_EQ(together[1].cache->length(), 3) << place;
        EXPECT_EQ(static_cast<std::int64_t>(together[1].logits.size()),
                  (rows == LogitRequest::Rows::range ? 3 : 1) * (*edited).config().vocab_size)
            << place << ": only those of the first pass";
        for (const std::size_t i : {0, 2}) {
          std::vector<Fed> alone = batch_of_three(*edited);
          alone.erase(alone.begin() + static_cast<std::ptrdiff_t>(i) + 1, alone.end());
          alone.erase(alone.begin(), alone.end() - 1);
          while (feed(*edited, kernels_for(isa), alone, rows)) {
          }
          EXPECT_FALSE(together[i].failure) << place;
          EXPECT_EQ(together[i].cache->length(), together[i].cache->capacity()) << place;
          EXPECT_TRUE(same_bits(together[i].logits, alone[0].logits)) << place << ", sequence " << i;
        }
      }
    }
  }
}

TEST(Failure, OfAllSequencesThrows) {
  for (const Case& c : cases()) {
    const EditedModel edited(c.golden, c.edit, c.quantize);
    std::vector<Fed> batch = batch_of_three(*edited);
    for (Fed& s : batch) s.ids[static_cast<std::size_t>(s.chunk) - 1] = kPoison;
    try {
      feed(*edited, default_kernels(), batch, LogitRequest::Rows::last_of_segments);
      FAIL() << c.golden;
    } catch (const NotFinite& e) {
      EXPECT_THAT(e.what(), HasSubstr("[" + c.place + "]"));
    }
  }
}

TEST(Failure, ThrowsWhereTapsSeeThePass) {
  const Case c = cases()[0];
  const EditedModel edited(c.golden, c.edit, c.quantize);
  Probe probe(*edited, {"hook_embed"});
  ThreadPool pool(1);
  Arena arena;
  Pass pass{{pool, default_kernels(), arena}, {{0, 2, 0, nullptr}, {2, 2, 0, nullptr}}, {}, &probe};
  EXPECT_THROW((*edited).forward(pass, std::vector<std::int32_t>{1, 2, kPoison, 3}), NotFinite);
}

}  // namespace
}  // namespace vitrine::test
