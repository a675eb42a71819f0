// Probes: their files, and the sites that they add to a forward.
#include "features/probe.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "features/made_dictionary.h"
#include "features/support.h"
#include "inspect/sequence_recorder.h"
#include "pass/dictionary_sites.h"
#include "support/backward.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

class ProbeFile : public testing::Test {
 protected:
  ProbeFile() : folder_(testing::TempDir() + "vitrine_probe_XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    for (std::int64_t i = 0; i < 2 * d_; ++i) weight_.push_back(std::sin(static_cast<double>(i + 1)));
  }
  ~ProbeFile() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// A probe of three labels, or of two.
  std::string written(const std::string& name, std::size_t n, const std::string& site = "blocks.1.hook_resid_post") {
    weight_.resize(n * static_cast<std::size_t>(d_), 0.25);
    std::vector<Json> labels = {"a", "b"};
    if (n > 2) labels.push_back("c");
    write_probe(path(name), {site, "mean", labels}, weight_, std::vector<double>(n, 0.5));
    return path(name);
  }
  std::shared_ptr<const Dictionary> loaded(const std::string& file, const std::string& name = "",
                                           const std::string& site = "") const {
    ThreadPool pool(1);
    return load_probe({name, file, site}, *model_, pool);
  }
  std::string refusal(const std::string& file, const std::string& name = "", const std::string& site = "") const {
    try {
      loaded(file, name, site);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::string folder_;
  Checkpoint checkpoint_ = golden_checkpoint("llama_mha");
  const Model* model_ = checkpoint_.model.get();
  std::int64_t d_ = model_->config().d_model;
  std::vector<std::int32_t> ids_ = {3, 9, 2, 17, 5, 11, 4, 8};
  std::vector<double> weight_;
};

TEST_F(ProbeFile, IsReadAsItWasWritten) {
  const ReadProbe read = read_probe(written("mood.safetensors", 1));
  EXPECT_EQ(read.facts.site, "blocks.1.hook_resid_post");
  EXPECT_EQ(read.facts.pool, "mean");
  EXPECT_EQ(Json(read.facts.labels), Json({"a", "b"}));
  EXPECT_EQ(name_of(loaded(path("mood.safetensors"))->at(kProbeValue)), "probe.mood");
  EXPECT_EQ(name_of(loaded(path("mood.safetensors"), "x")->at(kProbeValue)), "probe.x");
}

TEST_F(ProbeFile, GivesTheLogitsOfEveryTokenAndChangesNoBit) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{3}}) {
    const Applied probes = {{loaded(written("p.safetensors", n)), DictionaryUse::read}};
    const DictionaryRun o{.globs = {"probe.p", "blocks.1.hook_resid_post"}, .dictionaries = probes};
    const DictionaryValues got = run(*model_, ids_, o), plain = run(*model_, ids_, {});
    EXPECT_TRUE(same_bits(got.logits, plain.logits));
    const std::vector<float>&x = got.values.at("blocks.1.hook_resid_post"), &logits = got.values.at("probe.p");
    ASSERT_EQ(logits.size(), ids_.size() * n);
    const auto d = static_cast<std::size_t>(d_);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      double expected = 0.5;
      for (std::size_t j = 0; j < d; ++j) expected += static_cast<double>(x[i / n * d + j]) * weight_[i % n * d + j];
      EXPECT_NEAR(logits[i], expected, 1e-5);
    }
    for (const auto& [chunk, threads] : {std::pair(1, 1), {3, 2}, {0, 3}}) {
      DictionaryRun other = o;
      other.chunk = chunk;
      other.threads = threads;
      EXPECT_TRUE(same_bits(run(*model_, ids_, other).values.at("probe.p"), logits)) << chunk << " " << threads;
    }
  }
}

TEST_F(ProbeFile, ReadsWhatADictionaryAtItsSitePutsThere) {
  const Applied probe = {{loaded(written("p.safetensors", 1)), DictionaryUse::read}};
  Made made(d_, 20);
  Applied both = probe;
  both.push_back({std::shared_ptr<const Dictionary>(std::shared_ptr<void>(), &made.own), DictionaryUse::replace});
  const std::string output = "blocks.1.hook_resid_post.hook_sae_output";
  const DictionaryValues got = run(*model_, ids_, {.globs = {"probe.p", output}, .dictionaries = both});
  const std::vector<float>& y = got.values.at(output);
  const auto d = static_cast<std::size_t>(d_);
  for (std::size_t t = 0; t < ids_.size(); ++t) {
    double expected = 0.5;
    for (std::size_t j = 0; j < d; ++j) expected += static_cast<double>(y[t * d + j]) * weight_[j];
    EXPECT_NEAR(got.values.at("probe.p")[t], expected, 1e-5);
  }
  const DictionaryValues written =
      run(*model_, ids_, {.globs = {"probe.p"}, .writes = {"blocks.1.hook_resid_post=0"}, .dictionaries = probe});
  for (const float logit : written.values.at("probe.p")) EXPECT_EQ(logit, 0.5f);
}

TEST_F(ProbeFile, IsOnlyRead) {
  const Applied probes = {{loaded(written("p.safetensors", 1)), DictionaryUse::read}};
  EXPECT_THROW(run(*model_, ids_, {.writes = {"probe.p=1"}, .dictionaries = probes}), BadInput);
  try {
    SequenceRecorder(*model_, {}, {parse_site_write("probe.p+=1")}, probes);
    ADD_FAILURE();
  } catch (const BadInput& e) {
    EXPECT_THAT(e.what(), HasSubstr("a probe is only read"));
  }
  EXPECT_THROW(SequenceRecorder(*model_, {"probe.q"}, {}, probes), BadInput);
  const SequenceRecorder recorder(*model_, {"probe.*"}, {}, probes);
  EXPECT_EQ(name_of(*recorder.last_wanted()), "probe.p") << "a pass may end there";
}

TEST_F(ProbeFile, IsRefusedByNameWhereItDoesNotFit) {
  const std::string good = written("good.safetensors", 1);
  EXPECT_THAT(refusal(good, "", "blocks.0.mlp.hook_post"), HasSubstr("the width of the site, got"));
  EXPECT_THAT(refusal(good, "", "blocks.9.hook_resid_post"), HasSubstr("no site blocks.9.hook_resid_post"));
  EXPECT_THAT(refusal(good, "a.b"), HasSubstr("\"a.b\" is no name of a site"));
  EXPECT_THAT(refusal(written("bare.safetensors", 1, "")), HasSubstr("the file names no site"));
  EXPECT_THAT(refusal(path("missing")), HasSubstr("missing"));
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  };
  EXPECT_THAT(refusal(write("probe.pt", "\x80\x04\x95.")), HasSubstr("a Python pickle can run code"));
  std::string bytes;
  {
    std::ifstream in(good, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_NE(refusal(write("cut", bytes.substr(0, bytes.size() - 3))), "");
  std::string nan = bytes;
  nan.replace(nan.size() - 4, 4, "\xff\xff\xff\x7f");
  EXPECT_THAT(refusal(write("nan", nan)), HasSubstr("bias: expected finite numbers"));
  std::string renamed = bytes;
  renamed.replace(renamed.find("\"bias\""), 6, "\"bios\"");
  EXPECT_THAT(refusal(write("renamed", renamed)), HasSubstr("the tensor bias is missing"));
  std::string pool = bytes;
  pool.replace(pool.find("\"mean\""), 6, "\"many\"");
  EXPECT_THAT(refusal(write("pool", pool)), HasSubstr("expected last or mean, got \"many\""));
  std::string labels = bytes;
  labels.replace(labels.find("\\\"b\\\""), 5, "[\\\"b\\");
  EXPECT_NE(refusal(write("labels", labels)), "");
  write_probe(path("few"), {"blocks.1.hook_resid_post", "last", {1, 2, 3}}, weight_, {0.0});
  EXPECT_THAT(refusal(path("few")), HasSubstr("labels: expected 2"));
}

}  // namespace
}  // namespace vitrine::test
