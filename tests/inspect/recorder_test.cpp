
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "inspect/recorder.h"
#include "model/mixers/experts/sites.h"
#include "model/sites.h"
#include "ops/attention_sites.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, Value>;

struct Recording {
  Values values;
  std::vector<std::string> order;
  std::vector<float> logits;
};

Recording run(const std::string& golden, const std::vector<std::string>& globs,
              const std::vector<std::string>& writes) {
  const Checkpoint checkpoint = golden_checkpoint(golden);
  Recording result;
  std::vector<SiteWrite> parsed;
  for (const std::string& write : writes) parsed.push_back(parse_site_write(write));
  Recorder recorder(globs, parsed, site_layers(checkpoint.model->config()), [&](const SiteId& id, const Tensor& t) {
    EXPECT_TRUE(result.values.emplace(name_of(id), Value{t.shape, {t.data, t.data + t.count()}}).second) << name_of(id);
    result.order.push_back(name_of(id));
  });
  result.logits = logits_of(*checkpoint.model, golden_ids(golden), {.taps = &recorder});
  recorder.check_all_met();
  EXPECT_LE(static_cast<std::int64_t>(result.values.size()), recorder.max_sites());
  return result;
}

std::string run_refusal(const std::vector<std::string>& globs, const std::vector<std::string>& writes) {
  try {
    run("llama_mha", globs, writes);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

class RecorderOn : public testing::TestWithParam<const char*> {};

TEST_P(RecorderOn, TheDefaultSetHasTheSitesOfTheGoldenExceptResults) {
  const Recording recording = run(GetParam(), {}, {});
  std::vector<std::string> expected, got;
  for (const auto& [site, value] : golden_values(GetParam())) {
    if (!site.ends_with("hook_result")) expected.push_back(site);
  }
  for (const auto& [site, value] : recording.values) got.push_back(site);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(recording.order.front(), "hook_tokens");
}

TEST_P(RecorderOn, ReadingChangesNoBit) {
  const Checkpoint checkpoint = golden_checkpoint(GetParam());
  const std::vector<float> plain = logits_of(*checkpoint.model, golden_ids(GetParam()));
  EXPECT_TRUE(same_bits(run(GetParam(), {}, {}).logits, plain));
  EXPECT_TRUE(same_bits(run(GetParam(), {"*", "*hook_result", "*hook_attn_in", "*hook_k_input"}, {}).logits, plain));
}

/// Multiplying any single site by 1, including those on demand, changes no bit of the values and logits.
TEST_P(RecorderOn, TimesOneChangesNoBit) {
  const std::vector<std::string> globs = {
      "*", "*hook_result", "*hook_attn_in", "*hook_q_input", "*hook_k_input", "*hook_v_input", "*hook_mlp_in"};
  const Recording plain = run(GetParam(), globs, {});
  for (const std::string& site : plain.order) {
    const Recording written = run(GetParam(), globs, {site + "*=1"});
    ASSERT_TRUE(same_bits(written.logits, plain.logits)) << site;
    ASSERT_EQ(written.values.size(), plain.values.size());
    for (const auto& [name, value] : plain.values) {
      ASSERT_TRUE(same_bits(written.values.at(name).data, value.data)) << site << "*=1 changes " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, RecorderOn, testing::Values("llama_mha", "gemma2", "gpt2_variant"),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(SiteSelection, SitesOnDemandNeedAGlobThatEndsInTheirName) {
  const auto has = [](const std::string& glob, Site site) { return SiteSelection({glob}, {2}).contains({site, 1}); };
  EXPECT_TRUE(has("blocks.1.attn.hook_result", AttentionSite::result));
  EXPECT_TRUE(has("blocks.*.attn.hook_result", AttentionSite::result));
  EXPECT_TRUE(has("*hook_result", AttentionSite::result));
  EXPECT_FALSE(has("*", AttentionSite::result));
  EXPECT_FALSE(has("blocks.1.*", AttentionSite::result));
  EXPECT_FALSE(has("*hook_resul?", AttentionSite::result));
  EXPECT_FALSE(has("blocks.0.attn.hook_result", AttentionSite::result));
  EXPECT_TRUE(has("blocks.1.attn.hook_[qk]", AttentionSite::q));
  EXPECT_FALSE(has("blocks.1.attn.hook_[qk]", AttentionSite::v));
  EXPECT_FALSE(SiteSelection({}, {2}).contains({AttentionSite::attn_in, 0}));
  EXPECT_EQ(SiteSelection({"hook_embed", "blocks.?.hook_mlp_in"}, {2}).count(), 3);
  const SiteSelection experts({"blocks.1.mlp.experts.*.hook_gate"}, {2, 3});
  EXPECT_EQ(experts.count(), 4) << "three experts and the shared one";
  EXPECT_TRUE(experts.contains({ExpertSite::expert_gate, 1, -1, 2}));
  EXPECT_TRUE(experts.contains({ExpertSite::expert_gate, 1, -1, SiteId::kShared}));
  EXPECT_FALSE(experts.contains({ExpertSite::expert_gate, 0, -1, 2}));
  EXPECT_FALSE(experts.contains({ExpertSite::expert_post, 1, -1, 2}));
  EXPECT_EQ(SiteSelection({"nothing"}, {2}).count(), 0);
}

TEST(SiteSelection, FindsEverySiteByItsName) {
  const SiteLayers layers{2, 2, 2};
  const SiteSelection all({"*"}, layers);
  std::int64_t n = 0;
  const auto expect_alone = [&](const SiteId& id) {
    const SiteSelection own({name_of(id)}, layers);
    EXPECT_TRUE(own.contains(id)) << name_of(id);
    EXPECT_EQ(all.contains(id), !info(id.site).on_demand) << name_of(id);
    ++n;
  };
  for (const Site site : all_sites()) {
    if (!info(site).in_block()) {
      expect_alone({site});
    } else if (info(site).in_expert()) {
      expect_alone(BlockSite{1, Stack::decoder}.of_expert(site, 1));
    } else {
      expect_alone(BlockSite{1, Stack::encoder}(site));
      expect_alone(BlockSite{1, Stack::decoder}(site));
      if (in_cross_attention(site)) expect_alone(BlockSite{1, Stack::decoder}.of_cross()(site));
    }
  }
  EXPECT_GT(n, 200);
}

TEST(SiteWrite, ParsesAllForms) {
  const SiteWrite set = parse_site_write("blocks.1.hook_mlp_out[2,-1:,1:3,:]=-2.5e-1");
  EXPECT_EQ(set.glob, "blocks.1.hook_mlp_out");
  EXPECT_EQ(set.op, SiteWrite::Op::set);
  EXPECT_EQ(set.value, -0.25f);
  ASSERT_EQ(set.index.size(), 4u);
  EXPECT_EQ(set.index[0].begin, 2);
  EXPECT_EQ(set.index[0].end, 3);
  EXPECT_TRUE(set.index[1].open_end);
  EXPECT_EQ(set.index[2].end, 3);
  EXPECT_TRUE(set.index[3].whole);
  EXPECT_EQ(parse_site_write("a*=0").op, SiteWrite::Op::multiply);
  EXPECT_EQ(parse_site_write("a[0]+=1").op, SiteWrite::Op::add);
  EXPECT_EQ(parse_site_write("*.hook_z=0").glob, "*.hook_z");
  EXPECT_TRUE(parse_site_write("a=0").index.empty());
}

TEST(SiteWrite, RejectsMalformedText) {
  for (const char* text : {"",         "=",       "=1",         "a",        "a=",
                           "a=x",      "a=1x",    "a= 1",       "a=1e99",   "a=0x1",
                           "[0]=1",    "a]=1",    "a[x]=1",     "a[]=1",    "a[,]=1",
                           "a[1,]=1",  "a[,1]=1", "a[1:2:3]=1", "a[1.5]=1", "a[9223372036854775808]=1",
                           "a[--1]=1", "a[ 1]=1", "a[1-2]=1"}) {
    EXPECT_THROW(parse_site_write(text), BadInput) << text;
  }
}

TEST(SiteWrite, AStarAfterADotBelongsToTheGlob) {
  for (const char* text : {"blocks.0.*=0", "*=1", "hook_embed*=2", "blocks.*[1]+=2"}) {
    const SiteWrite write = parse_site_write(text);
    const std::string_view all(text);
    const bool is_glob = all.starts_with("*") || all.find(".*=") != std::string_view::npos;
    EXPECT_EQ(write.op, is_glob                                    ? SiteWrite::Op::set
                        : all.find("*=") != std::string_view::npos ? SiteWrite::Op::multiply
                                                                   : SiteWrite::Op::add)
        << text;
  }
  EXPECT_EQ(parse_site_write("blocks.0.*=0").glob, "blocks.0.*");
  EXPECT_EQ(parse_site_write("hook_embed*=2").glob, "hook_embed");
}

TEST(SiteWrite, ExtremeIndicesAreOutOfRange) {
  for (const char* index :
       {"9223372036854775807", "-9223372036854775808", "0:9223372036854775807", "-9223372036854775808:"}) {
    EXPECT_THAT(run_refusal({}, {"hook_embed[" + std::string(index) + "]=1"}), HasSubstr("dimension of size")) << index;
  }
}

/// The elements of hook_embed [T, 24] that a write with this index changes, as t * 24 + i.
std::vector<std::size_t> written_elements(const std::string& index) {
  const Value plain = run("llama_mha", {"hook_embed"}, {}).values.at("hook_embed");
  const Value value = run("llama_mha", {"hook_embed"}, {"hook_embed" + index + "=7"}).values.at("hook_embed");
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < value.data.size(); ++i) {
    if (value.data[i] == plain.data[i]) continue;
    EXPECT_EQ(value.data[i], 7.0f);
    changed.push_back(i);
  }
  return changed;
}

TEST(RecorderWrites, IndexesFromEitherEnd) {
  const std::size_t n = golden_ids("llama_mha").size();
  using List = std::vector<std::size_t>;
  EXPECT_EQ(written_elements("[0,0]"), (List{0}));
  EXPECT_EQ(written_elements("[1,3:5]"), (List{27, 28}));
  EXPECT_EQ(written_elements("[-1,-1]"), (List{n * 24 - 1}));
  EXPECT_EQ(written_elements("[-2,-2]"), (List{n * 24 - 26}));
  EXPECT_EQ(written_elements("[0,22:]"), (List{22, 23}));
  EXPECT_EQ(written_elements("[0,:2]"), (List{0, 1}));
  EXPECT_EQ(written_elements("[0,-3:-1]"), (List{21, 22}));
  EXPECT_EQ(written_elements("[2]").size(), 24u);
  EXPECT_EQ(written_elements("[:,5]").size(), n);
  EXPECT_EQ(written_elements("[1:3,5:7]"), (List{29, 30, 53, 54}));
  EXPECT_EQ(written_elements("").size(), n * 24);
}

TEST(RecorderWrites, IndexesOutOfRangeAreErrors) {
  for (const char* index :
       {"[100000]", "[-100000]", "[0,24]", "[0,-25]", "[0,0:25]", "[0,3:3]", "[0,5:2]", "[0,-1:-2]", "[24:]"}) {
    EXPECT_THAT(run_refusal({}, {"hook_embed" + std::string(index) + "=1"}), HasSubstr("dimension of size")) << index;
  }
  EXPECT_THAT(run_refusal({}, {"hook_embed[0,0,0]=1"}), HasSubstr("has shape"));
}

TEST(RecorderWrites, NamesWithoutASiteAreErrors) {
  EXPECT_THAT(run_refusal({"hook_nothing"}, {}), HasSubstr("hook_nothing"));
  EXPECT_THAT(run_refusal({"hook_embed", "blocks.2.hook_resid_pre"}, {}), HasSubstr("blocks.2.hook_resid_pre"));
  EXPECT_THAT(run_refusal({"hook_pos_embed"}, {}), HasSubstr("hook_pos_embed")) << "the model has no such site";
  EXPECT_THAT(run_refusal({}, {"hook_nothing=1"}), HasSubstr("hook_nothing"));
  EXPECT_THAT(run_refusal({}, {"hook_embed*=1", "blocks.0.ln1_post.hook_out=1"}), HasSubstr("ln1_post"));
}

TEST(RecorderWrites, WritesApplyInOrderBeforeTheValueIsRead) {
  const std::string site = "blocks.0.hook_mlp_out";
  const Value plain = run("llama_mha", {site}, {}).values.at(site);
  const Value value =
      run("llama_mha", {site}, {site + "[1,2]=3", site + "[1]*=2", site + "[1,2:4]+=0.5"}).values.at(site);
  const auto at = [](const Value& v, std::size_t i) { return v.data[24 + i]; };
  EXPECT_EQ(at(value, 2), 6.5f);
  EXPECT_EQ(at(value, 3), at(plain, 3) * 2 + 0.5f);
  EXPECT_EQ(at(value, 4), at(plain, 4) * 2);
  EXPECT_EQ(value.data[0], plain.data[0]);
}

TEST(RecorderWrites, AffectOnlyLaterSites) {
  const Recording plain = run("llama_mha", {}, {});
  const Recording written = run("llama_mha", {}, {"blocks.1.hook_resid_pre[2]+=1"});
  const auto first = std::find(plain.order.begin(), plain.order.end(), "blocks.1.hook_resid_pre");
  ASSERT_NE(first, plain.order.end());
  for (auto it = plain.order.begin(); it != plain.order.end(); ++it) {
    const bool same = same_bits(written.values.at(*it).data, plain.values.at(*it).data);
    EXPECT_EQ(same, it < first) << *it;
  }
  const std::size_t vocab = plain.logits.size() / golden_ids("llama_mha").size();
  EXPECT_TRUE(std::equal(plain.logits.begin(), plain.logits.begin() + static_cast<std::ptrdiff_t>(2 * vocab),
                         written.logits.begin()))
      << "earlier positions do not depend on it";
  EXPECT_FALSE(same_bits(plain.logits, written.logits));
}

TEST(RecorderWrites, SitesOnDemandAffectTheLogits) {
  const Recording plain = run("llama_mha", {}, {});
  for (const char* site :
       {"attn.hook_result", "hook_attn_in", "hook_q_input", "hook_k_input", "hook_v_input", "hook_mlp_in"}) {
    const Recording written = run("llama_mha", {}, {"blocks.0." + std::string(site) + "[:,0]=0.25"});
    EXPECT_FALSE(same_bits(written.logits, plain.logits)) << site;
  }
}

TEST(RecorderWrites, InvalidValuesAreErrors) {
  EXPECT_THAT(run_refusal({}, {"blocks.1.hook_mlp_out[0,0]=nan"}), HasSubstr("blocks.1.hook_resid_post"));
  EXPECT_THAT(run_refusal({}, {"hook_embed[0,0]=inf"}), HasSubstr("hook_embed"));
  EXPECT_THAT(run_refusal({}, {"hook_tokens[0]=0.5"}), HasSubstr("hook_tokens"));
  EXPECT_THAT(run_refusal({}, {"hook_tokens[0]=-1"}), HasSubstr("hook_tokens"));
  EXPECT_THAT(run_refusal({}, {"hook_tokens[0]=1e30"}), HasSubstr("hook_tokens"));
  EXPECT_EQ(run_refusal({}, {"hook_tokens[0]=3"}), "");
}

}  // namespace
}  // namespace vitrine::test
