// Gradients at sites: against finite differences of the loss, and through writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "inspect/recorder.h"
#include "model/mixers/experts/sites.h"
#include "support/backward.h"

namespace vitrine::test {
namespace {

/// Adds h · direction to the value of one site. The choice of experts is kept, because it is not differentiable.
class Nudge : public Taps {
 public:
  Nudge(std::string site, const std::vector<float>& direction, double h, const Values& before)
      : site_(std::move(site)), direction_(direction), h_(static_cast<float>(h)), before_(before) {}

  bool wants(const SiteId& id) const override { return id.site == ExpertSite::expert_indices || name_of(id) == site_; }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const Tensor other = pass.tensor(value.shape);
    if (id.site == ExpertSite::expert_indices) {
      std::copy_n(before_.at(name_of(id)).data.begin(), other.count(), other.data);
      return other;
    }
    for (std::size_t i = 0; i < direction_.size(); ++i) other.data[i] = value.data[i] + h_ * direction_[i];
    return other;
  }

 private:
  std::string site_;
  const std::vector<float>& direction_;
  float h_;
  const Values& before_;
};

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += std::isfinite(v) ? static_cast<double>(v) * static_cast<double>(v) : 0.0;
  return std::sqrt(sum);
}

class SiteGradients : public testing::TestWithParam<std::string> {
 protected:
  SiteGradients() { ids_.resize(std::min<std::size_t>(ids_.size(), 12)); }

  /// d loss / d h at h = 0, with h · direction added to the site's value, from four losses. The error is of order h⁴.
  double slope(const std::string& site, const std::vector<float>& direction, double h, const Values& before) const {
    const auto loss = [&](double step) {
      Nudge nudge(site, direction, step, before);
      return loss_of(model_, ids_, &nudge);
    };
    const double wide = (loss(h) - loss(-h)) / (2 * h), narrow = (loss(h / 2) - loss(-h / 2)) / h;
    return (4 * narrow - wide) / 3;
  }

  const Checkpoint checkpoint_ = golden_checkpoint(GetParam());
  const Model& model_ = *checkpoint_.model;
  Ids ids_ = golden_ids(GetParam());
};

/// In random directions, at every site that has a gradient, including strips outside the mask.
TEST_P(SiteGradients, MatchTheSlopesOfTheLoss) {
  Probe probe(model_, {"*"});
  probe.ask_gradients = true;
  ModelGradients model_gradients(model_, {.taps = &probe});
  model_gradients.forward_backward({ids_});
  std::size_t compared = 0;
  double worst = 0;
  for (const auto& [site, gradient] : probe.gradients) {
    if (site == "hook_loss") continue;
    const Value& value = probe.values.at(site);
    const double g = norm(gradient.data);
    std::vector<float> direction(value.data.size());
    for (std::uint64_t trial = 0; trial < 2; ++trial) {
      double expected = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const bool finite = std::isfinite(value.data[i]);
        direction[i] = finite ? (uniform(5, trial, i) < 0.5 ? -1.0f : 1.0f) : 0.0f;
        expected += static_cast<double>(gradient.data[i]) * static_cast<double>(direction[i]);
        ASSERT_TRUE(finite || gradient.data[i] == 0) << site << ": a masked score has a gradient";
      }
      const double spread = norm(value.data) / std::sqrt(static_cast<double>(value.data.size()));
      const double h = std::min(0.03 / (g + 1e-9), 0.02 * spread);
      const double error = std::abs(slope(site, direction, h, probe.values) - expected);
      const double bar = 3e-3 * g + 2e-5 / h;
      EXPECT_LE(error, bar) << site << ", slope " << expected << ", norm " << g << ", h " << h;
      worst = std::max(worst, error / g);
    }
    ++compared;
  }
  EXPECT_GT(compared, 10 * model_.config().n_layers());
  RecordProperty("worst", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Families, SiteGradients,
                         testing::Values("gemma2", "gpt2", "qwen2_moe", "olmo2", "falcon", "cohere_qk_norm"),
                         [](const auto& param_info) { return param_info.param; });

/// The gradients of a pass with writes, at the sites of the default set and of all parameters.
struct Written {
  Values sites, params;
};

class GradientsThroughWrites : public testing::Test {
 protected:
  Written learned(const std::vector<std::string>& writes, bool recompute = false) const {
    Recorder recorder = recorder_of(writes);
    Written result;
    recorder.receive_gradients([&](const SiteId& id, const Tensor& g) {
      result.sites[name_of(id)] = {g.shape, {g.data, g.data + g.count()}};
    });
    ModelGradients model_gradients(model_, {.taps = &recorder, .recompute = recompute});
    model_gradients.forward_backward({ids_});
    recorder.check_all_met();
    result.params = model_gradients.gradients();
    return result;
  }
  double loss(const std::vector<std::string>& writes) const {
    Recorder recorder = recorder_of(writes);
    return loss_of(model_, ids_, &recorder);
  }

  const Checkpoint checkpoint_ = golden_checkpoint("gemma2");
  const Model& model_ = *checkpoint_.model;
  const Ids ids_ = golden_ids("gemma2");
  const std::size_t d_ = static_cast<std::size_t>(model_.config().d_model);

 private:
  Recorder recorder_of(const std::vector<std::string>& texts) const {
    std::vector<SiteWrite> writes;
    for (const std::string& text : texts) writes.push_back(parse_site_write(text));
    return {{}, writes, site_layers(model_.config()), nullptr};
  }
};

/// resid_post is resid_mid + mlp_out, so the gradient that flows through the write is that of both.
TEST_F(GradientsThroughWrites, AreZeroForReplacedElementsAndScaledForScaledOnes) {
  const Written w =
      learned({"blocks.0.hook_resid_post[3]=0.25", "blocks.0.hook_resid_post[5,:4]*=-2.5",
               "blocks.0.hook_resid_post[6]+=1", "blocks.0.hook_resid_post[7]*=3", "blocks.0.hook_resid_post[7]=1",
               "blocks.0.hook_resid_post[8]*=2", "blocks.0.hook_resid_post[8]*=2"});
  const std::vector<float>& after = w.sites.at("blocks.0.hook_resid_post").data;
  const std::vector<float>& before = w.sites.at("blocks.0.hook_mlp_out").data;
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::size_t t = i / d_, column = i % d_;
    const float factor = t == 3 || t == 7 ? 0.0f : t == 5 && column < 4 ? -2.5f : t == 8 ? 4.0f : 1.0f;
    EXPECT_EQ(before[i], factor * after[i]) << t << ", " << column;
    EXPECT_EQ(after[i] != 0, t + 1 < ids_.size()) << t << ", " << column;
  }
}

TEST_F(GradientsThroughWrites, AReplacedHeadOfThePatternPassesNone) {
  const Written w = learned({"blocks.1.attn.hook_pattern[2]=0.1", "blocks.1.attn.hook_attn_scores[0,4]*=0.5"});
  const Value &scores = w.sites.at("blocks.1.attn.hook_attn_scores"),
              &raw = w.sites.at("blocks.1.attn.hook_scores_raw");
  const std::int64_t n = scores.shape[1] * scores.shape[2];
  for (std::int64_t head = 0; head < scores.shape[0]; ++head) {
    const auto first = scores.data.begin() + head * n;
    EXPECT_EQ(largest({first, first + n}) == 0, head == 2) << head;
  }
  EXPECT_GT(largest(raw.data), 0);
}

/// No gradient flows through a replaced result or input of a head. A write of ·1 changes no gradient.
TEST_F(GradientsThroughWrites, ReplacedHeadsPassNone) {
  const Written plain = learned({});
  const Written times_one =
      learned({"blocks.*.attn.hook_result*=1", "blocks.*.hook_attn_in*=1", "blocks.*.hook_k_input*=1"});
  for (const bool of_params : {false, true}) {
    const auto part = [&](const Written& w) {
      Values values = of_params ? w.params : w.sites;
      std::erase_if(values, [](const auto& value) { return value.first.find(".ln1.") != std::string::npos; });
      return values;  // these heads do not read the norm of the stream
    };
    const Distance d = distance(part(times_one), part(plain), 1e-5, 1e-7);
    EXPECT_LE(d.worst, 1) << d.name;
  }
  const Written silenced = learned({"blocks.1.attn.hook_result[:,2]=0"});
  const Value& z = silenced.sites.at("blocks.1.attn.hook_z");
  const auto head_dim = static_cast<std::size_t>(z.shape[2]), n_heads = static_cast<std::size_t>(z.shape[1]);
  for (std::size_t i = 0; i < z.data.size(); ++i) {
    const bool counts = i / head_dim % n_heads != 2 && i / (head_dim * n_heads) + 1 < ids_.size();
    ASSERT_EQ(z.data[i] != 0, counts) << i;
  }
  const Written constant = learned({"blocks.1.hook_attn_in=0.5"});  // no gradient flows through attention
  EXPECT_EQ(constant.sites.at("blocks.1.hook_resid_pre").data, constant.sites.at("blocks.1.hook_resid_mid").data);
}

/// Gradients at earlier sites match the slopes of the loss with the same writes.
TEST_F(GradientsThroughWrites, MatchTheSlopesOfTheLoss) {
  const std::vector<std::string> writes = {"blocks.1.hook_resid_pre[2:6]*=0.5",     "blocks.1.hook_resid_pre[7]=0.1",
                                           "blocks.1.attn.hook_pattern[1,9,3]=0.7", "blocks.2.mlp.hook_post[:,:5]*=-1",
                                           "blocks.2.ln1.hook_scale[4]*=1.5",       "blocks.0.hook_q_input[3:8,1]*=0.5",
                                           "blocks.1.hook_attn_in[2:9,0,:7]*=-0.5", "blocks.2.hook_k_input[5]=0.3",
                                           "blocks.1.attn.hook_result[4:,2]*=2",    "blocks.2.hook_v_input[1,0]+=1"};
  const Written w = learned(writes);
  for (const char* site : {"hook_embed", "blocks.0.hook_attn_out"}) {
    const Value& gradient = w.sites.at(site);
    for (const std::size_t element : {2 * d_ + 1, 7 * d_ + 2, 9 * d_ + 3, 4 * d_}) {
      const auto at = "[" + std::to_string(element / d_) + "," + std::to_string(element % d_) + "]+=";
      const auto loss_at = [&](double h) {
        std::vector<std::string> all = writes;
        all.push_back(site + at + std::to_string(h));
        return loss(all);
      };
      const double h = 0.03, wide = (loss_at(h) - loss_at(-h)) / (2 * h),
                   narrow = (loss_at(h / 2) - loss_at(-h / 2)) / h;
      const auto expected = static_cast<double>(gradient.data[element]);
      EXPECT_NEAR((4 * narrow - wide) / 3, expected, 2e-3 * largest(gradient.data)) << site << at;
    }
  }
}

TEST_F(GradientsThroughWrites, RecomputeRepeatsWrites) {
  const std::vector<std::string> writes = {"blocks.*.hook_resid_mid[2:6]*=0.5", "blocks.1.attn.hook_pattern[1,9,3]=0.7",
                                           "blocks.2.mlp.hook_post[3]=0.2", "hook_logits*=1.5"};
  const Written kept = learned(writes), again = learned(writes, true);
  EXPECT_EQ(first_difference(kept.params, again.params), "");
  EXPECT_EQ(first_difference(kept.sites, again.sites), "");
  EXPECT_NE(first_difference(kept.params, learned({}).params), "");
}

TEST_F(GradientsThroughWrites, EverySiteTimesOneChangesNothing) {
  const Written plain = learned({}), written = learned({"*[:]*=1"});
  EXPECT_EQ(first_difference(plain.params, written.params), "");
  EXPECT_EQ(first_difference(plain.sites, written.sites), "");
}

/// The gradient at a site is with respect to the value after the write.
TEST_F(GradientsThroughWrites, AreWithRespectToTheWrittenValue) {
  const Written w = learned({"hook_logits[1]*=3", "hook_logits[2]=0.5"});
  const Value& logits = w.sites.at("hook_logits");
  const std::int64_t v = logits.shape[1];
  for (const std::int64_t row : {1, 2}) {  // softmax − 1 at the target: Σ = 0
    double sum = 0;
    for (std::int64_t i = 0; i < v; ++i) sum += static_cast<double>(logits.data[static_cast<std::size_t>(row * v + i)]);
    EXPECT_NEAR(sum, 0, 1e-6);
  }
  const auto target = static_cast<std::int64_t>(ids_[3]);
  for (std::int64_t i = 0; i < v; ++i) {  // all logits are equal, and so are the probabilities
    const double p = 1.0 / static_cast<double>(v), expected = i == target ? p - 1 : p;
    EXPECT_NEAR(static_cast<double>(logits.data[static_cast<std::size_t>(2 * v + i)]), expected, 1e-6);
  }
}

}  // namespace
}  // namespace vitrine::test
