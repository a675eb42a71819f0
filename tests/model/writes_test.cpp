// The effects of replacing values at sites.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

/// Records all sites, and changes one by a function of its values.
class Writer : public Probe {
 public:
  Writer(const Model& model, std::string site, std::function<void(Value&)> change)
      : Probe(model, {"*"}), site_(std::move(site)), change_(std::move(change)) {}

  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    if (name_of(id) != site_) return Probe::visit(pass, id, value);
    Value changed{value.shape, {value.data, value.data + value.count()}};
    change_(changed);
    const Tensor copy = pass.tensor(value.shape);
    std::copy(changed.data.begin(), changed.data.end(), copy.data);
    Probe::visit(pass, id, copy);
    return copy;
  }

 private:
  std::string site_;
  std::function<void(Value&)> change_;
};

class Writes : public testing::Test {
 protected:
  Writes() : checkpoint_(golden_checkpoint("gemma2")), model_(*checkpoint_.model), ids_(golden_ids("gemma2")) {
    Probe probe(model_, {"*"});
    before_logits_ = logits_of(model_, ids_, {.taps = &probe});
    before_ = probe.values;
  }

  std::map<std::string, Value> after(const std::string& site, const std::function<void(Value&)>& change) {
    Writer writer(model_, site, change);
    after_logits_ = logits_of(model_, ids_, {.taps = &writer});
    return writer.values;
  }

  Checkpoint checkpoint_;
  const Model& model_;
  std::vector<std::int32_t> ids_;
  std::map<std::string, Value> before_;
  std::vector<float> before_logits_, after_logits_;
};

/// Element [a, b, c] of a rank-3 value.
float& at(Value& v, std::int64_t a, std::int64_t b, std::int64_t c) {
  return v.data[static_cast<std::size_t>((a * v.shape[1] + b) * v.shape[2] + c)];
}

TEST_F(Writes, AQueryInputAffectsOnlyItsHead) {
  auto values = after("blocks.1.hook_q_input", [](Value& v) {
    for (std::int64_t i = 0; i < v.shape[2]; ++i) at(v, 3, 2, i) += static_cast<float>(i);
  });
  EXPECT_TRUE(same_bits(values.at("blocks.1.attn.hook_k").data, before_.at("blocks.1.attn.hook_k").data));
  EXPECT_TRUE(same_bits(values.at("blocks.1.attn.hook_v").data, before_.at("blocks.1.attn.hook_v").data));
  EXPECT_TRUE(same_bits(values.at("blocks.1.ln1.hook_out").data, before_.at("blocks.1.ln1.hook_out").data));
  Value &q = values.at("blocks.1.attn.hook_q"), &old = before_.at("blocks.1.attn.hook_q");
  for (std::int64_t t = 0; t < q.shape[0]; ++t) {
    for (std::int64_t head = 0; head < q.shape[1]; ++head) {
      for (std::int64_t i = 0; i < q.shape[2]; ++i) {
        if (t == 3 && head == 2) {
          EXPECT_NE(at(q, t, head, i), at(old, t, head, i));
        } else {
          EXPECT_EQ(at(q, t, head, i), at(old, t, head, i)) << t << " " << head << " " << i;
        }
      }
    }
  }
}

TEST_F(Writes, AttnInAffectsQueriesKeysAndValues) {
  auto values = after("blocks.0.hook_attn_in", [](Value& v) {
    for (std::int64_t i = 0; i < v.shape[2]; ++i) at(v, 0, 0, i) += static_cast<float>(i);
  });
  for (const char* site : {"blocks.0.attn.hook_q", "blocks.0.attn.hook_k", "blocks.0.attn.hook_v"}) {
    EXPECT_FALSE(same_bits(values.at(site).data, before_.at(site).data)) << site;
  }
}

TEST_F(Writes, ZeroingAResultEqualsZeroingItsZ) {
  const auto silence = [](Value& v) {
    for (std::int64_t t = 0; t < v.shape[0]; ++t) {
      for (std::int64_t i = 0; i < v.shape[2]; ++i) at(v, t, 1, i) = 0;
    }
  };
  const std::vector<float> by_z = after("blocks.0.attn.hook_z", silence).at("blocks.0.attn.hook_out").data;
  const std::vector<float> by_result = after("blocks.0.attn.hook_result", silence).at("blocks.0.attn.hook_out").data;
  const std::vector<float>& untouched = before_.at("blocks.0.attn.hook_out").data;
  EXPECT_FALSE(same_bits(by_z, untouched));
  for (std::size_t i = 0; i < by_z.size(); ++i) EXPECT_NEAR(by_z[i], by_result[i], 1e-5);
}

/// Layer 1 has a window of 5: position 0 is outside it for query 9, and position 12 is in its future.
TEST_F(Writes, APatternOutsideTheMaskCounts) {
  for (const std::int64_t key : {0, 12}) {
    auto values = after("blocks.1.attn.hook_pattern", [key](Value& v) { at(v, 3, 9, key) = 0.5f; });
    Value &z = values.at("blocks.1.attn.hook_z"), &old = before_.at("blocks.1.attn.hook_z"),
          &v = before_.at("blocks.1.attn.hook_v");
    for (std::int64_t i = 0; i < z.shape[2]; ++i) {
      EXPECT_NEAR(at(z, 9, 3, i), at(old, 9, 3, i) + 0.5f * at(v, key, 1, i), 1e-5) << "key " << key;
      EXPECT_EQ(at(z, 9, 2, i), at(old, 9, 2, i));
    }
  }
}

TEST_F(Writes, AScoreOutsideTheMaskIsAttendedTo) {
  auto values = after("blocks.1.attn.hook_attn_scores", [](Value& v) { at(v, 0, 9, 11) = 50; });
  Value& pattern = values.at("blocks.1.attn.hook_pattern");
  EXPECT_NEAR(at(pattern, 0, 9, 11), 1, 1e-6);
  EXPECT_EQ(at(pattern, 0, 9, 13), 0);
}

TEST_F(Writes, AKeyThatIsNoLongerInTheCacheCannotBeAttendedTo) {
  Writer writer(model_, "blocks.1.attn.hook_pattern", [](Value& v) { v.data[0] = 0.5f; });
  try {
    chunked_logits_of(model_, ids_, 1, {.taps = &writer});
    FAIL() << "position 0 is outside a window of 5";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find("position 0"), std::string::npos) << e.what();
  }
}

TEST_F(Writes, TokensCanBeReplacedByTokens) {
  const std::vector<float> values = after("hook_tokens", [](Value& v) { v.data[4] = 7; }).at("hook_loss").data;
  std::vector<std::int32_t> ids = ids_;
  ids[4] = 7;
  EXPECT_TRUE(same_bits(after_logits_, logits_of(model_, ids)));
  EXPECT_EQ(values.size(), ids.size() - 1);
  EXPECT_THROW(after("hook_tokens", [](Value& v) { v.data[4] = 0.5f; }), BadInput);
  EXPECT_THROW(after("hook_tokens", [](Value& v) { v.data[4] = 1e9f; }), BadInput);
}

TEST_F(Writes, LaterTokensChangeNoEarlierLogits) {
  const auto vocab_size = model_.config().vocab_size;
  std::vector<std::int32_t> ids = ids_;
  ids[8] = (ids[8] + 1) % static_cast<std::int32_t>(vocab_size);
  const std::vector<float> logits = logits_of(model_, ids);
  const auto earlier = 8 * vocab_size;
  EXPECT_TRUE(same_bits({logits.begin(), logits.begin() + earlier},
                        {before_logits_.begin(), before_logits_.begin() + earlier}));
  EXPECT_FALSE(same_bits(logits, before_logits_));
}

TEST_F(Writes, AWrittenNaNIsAnErrorThatNamesTheSite) {
  try {
    after("blocks.1.mlp.hook_post", [](Value& v) { v.data[3] = NAN; });
    FAIL() << "expected an error";
  } catch (const BadInput& e) {
    EXPECT_NE(std::string(e.what()).find("[blocks.1.hook_resid_post]"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace vitrine::test
