// Control vectors: their files, and that they are edits of the residual stream.
#include "checkpoint/adapters/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/gguf_writer.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/temp_folder.h"
#include "checkpoint/adapters/modifier_text.h"
#include "checkpoint/safetensors.h"
#include "generate/generator.h"
#include "generate/open_model.h"
#include "generate/score.h"
#include "inspect/attribution.h"
#include "inspect/recorder.h"
#include "ops/control.h"
#include "support/backward.h"
#include "support/controls.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

std::vector<float> scored(const GenerateContext& context, const std::vector<std::int32_t>& ids) {
  std::vector<float> logits;
  score(context, {ids},
        [&](std::int64_t, const Tensor& rows) { logits.insert(logits.end(), rows.data, rows.data + rows.count()); });
  return logits;
}

/// The edits of the residual stream that add the controls.
std::vector<SiteWrite> writes_of(const ModelConfig& config, AppliedControls controls) {
  std::vector<SiteWrite> writes;
  for (int layer = 0; layer < static_cast<int>(config.n_layers()); ++layer) {
    const std::vector<float> sum = sum_of_controls(controls, layer);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      writes.push_back(parse_site_write(fmt::format("blocks.{}.hook_resid_post[:,{}]+={:.9g}", layer, i, sum[i])));
    }
  }
  return writes;
}

Recorder writer_of(const ModelConfig& config, AppliedControls controls) {
  return {{""}, writes_of(config, controls), site_layers(config), [](const SiteId&, const Tensor&) {}};
}

class ControlOn : public testing::TestWithParam<const char*> {
 protected:
  const Checkpoint checkpoint_ = golden_checkpoint(GetParam());
  const Model& model_ = *checkpoint_.model;
  const std::shared_ptr<const ControlVector> a_ = some_control(model_.config(), 0.3f),
                                             b_ = some_control(model_.config(), -0.1f);
  const std::vector<AppliedControl> both_ = {{a_, 0.7}, {b_, 1.3, {1, 1}}};
};

TEST_P(ControlOn, HasTheBitsOfAnEdit) {
  ThreadPool pool(2);
  GenerateContext context{&model_, &pool, &default_kernels()};
  const std::vector<std::int32_t> ids = some_ids(model_, 9);
  const std::vector<float> plain = scored(context, ids);
  context.modifiers.controls = both_;
  const std::vector<float> ours = scored(context, ids);
  EXPECT_FALSE(same_bits(ours, plain));

  Recorder writer = writer_of(model_.config(), both_);
  context.modifiers = {};
  context.taps = &writer;
  EXPECT_TRUE(same_bits(ours, scored(context, ids)));
  writer.check_writes_met();
}

TEST_P(ControlOn, TapsSeeTheSum) {
  ThreadPool pool(1);
  const std::string site = "blocks.1.hook_resid_post";
  const std::vector<std::int32_t> ids = some_ids(model_, 5);
  const std::vector<float> sum = sum_of_controls(both_, 1);
  const auto read = [&](AppliedControls controls) {
    Probe probe(model_, {site});
    GenerateContext context{&model_, &pool, &default_kernels()};
    context.taps = &probe;
    context.modifiers.controls = controls;
    scored(context, ids);
    return probe.values.at(site).data;
  };
  const std::vector<AppliedControl> in_last = {{a_, 0.7, {1, 1}}, {b_, 1.3, {1, 1}}};
  std::vector<float> expected = read({});
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += sum[i % sum.size()];
  EXPECT_TRUE(same_bits(read(in_last), expected));
}

TEST_P(ControlOn, SequencesOfABatchHaveTheirOwn) {
  ThreadPool pool(2);
  const GenerateContext context{&model_, &pool, &default_kernels()};
  const std::vector<ModifierList> lists = {{}, {.controls = both_}, {.controls = {{b_, 2}}}, {.controls = {{a_, -1}}}};
  std::vector<GenerateRequest> requests(lists.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = some_ids(model_, 4 + static_cast<std::int64_t>(i));
    requests[i].max_tokens = 5;
    requests[i].n_logprobs = 3;
    requests[i].modifiers = lists[i];
  }
  const std::vector<GenerateResult> together = generate(context, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerateResult alone = generate(context, {&requests[i], 1})[0];
    EXPECT_EQ(together[i].ids, alone.ids) << i;
    ASSERT_EQ(together[i].logprobs.size(), alone.logprobs.size()) << i;
    for (std::size_t k = 0; k < alone.logprobs.size(); ++k) {
      EXPECT_EQ(together[i].logprobs[k].logprob, alone.logprobs[k].logprob) << i << ' ' << k;
    }
  }
}

TEST_P(ControlOn, GradientsPassThrough) {
  Recorder writer = writer_of(model_.config(), both_);
  const std::vector<Ids> texts = {some_ids(model_, 7), some_ids(model_, 5, 2)};
  for (const bool recompute : {false, true}) {
    ModelGradients ours(model_, {.recompute = recompute, .controls = both_});
    ModelGradients edited(model_, {.taps = &writer, .recompute = recompute});
    ours.forward_backward(texts);
    edited.forward_backward(texts);
    EXPECT_EQ(ours.cross_entropy, edited.cross_entropy);
    const Values expected = edited.gradients();
    for (const auto& [name, value] : ours.gradients())
      EXPECT_TRUE(same_bits(value.data, expected.at(name).data)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, ControlOn, testing::Values("llama_mha", "gpt2", "gemma2", "own/lstm"));

TEST(Controls, AreTermsOfAnAttribution) {
  for (const char* golden : {"llama_mha", "gpt2", "gemma2"}) {
    const Checkpoint checkpoint = golden_checkpoint(golden);
    ThreadPool pool(1);
    GenerateContext context{checkpoint.model.get(), &pool, &default_kernels()};
    const std::vector<AppliedControl> controls = {{some_control(checkpoint.model->config(), 0.3f), 2}};
    context.modifiers.controls = controls;
    const std::vector<std::int32_t> ids = some_ids(*checkpoint.model, 6);
    const Attribution shares = attribute(context, ids, {.token = 3, .ablate = true});
    EXPECT_NEAR(shares.sum, shares.unembedded, 1e-4) << golden;
    const auto is_control = [](const AttributionTerm& term) { return term.name.ends_with(".control"); };
    EXPECT_EQ(std::ranges::count_if(shares.terms, is_control), std::ssize(controls[0].control->directions));
    const auto last = std::find_if(shares.terms.rbegin(), shares.terms.rend(), is_control);
    std::vector<AppliedControl> others = {
        {controls[0].control, 2, {0, static_cast<int>(controls[0].control->directions.size()) - 1}}};
    context.modifiers.controls = others;
    EXPECT_NEAR(*last->ablated, attribute(context, ids, {.token = 3}).logit, 1e-4) << "without the last one";
  }
}

TEST(Controls, AScaleIsRoundedToFloat32AndProductsAreNotFused) {
  auto control = std::make_shared<ControlVector>();
  control->directions[1] = {3.0f, 0.1f};
  const std::vector<AppliedControl> controls = {{control, 0.1}, {control, 1.0 / 3}, {control, 5, {2, 9}}};
  const float tenth = 0.1f, third = static_cast<float>(1.0 / 3);
  EXPECT_EQ(sum_of_controls(controls, 1),
            (std::vector<float>{tenth * 3.0f + third * 3.0f, tenth * 0.1f + third * 0.1f}));
  EXPECT_TRUE(sum_of_controls(controls, 0).empty());
  EXPECT_TRUE(sum_of_controls(controls, 2).empty());
}

TEST(Controls, LogitsArePyTorchs) {
  const std::string folder = outside_data("home/control");
  if (folder.empty()) GTEST_SKIP() << "VITRINE_DATA has no home/control";
  ThreadPool pool(2);
  const Json expected = Json::parse(MappedFile::open(folder + "/expected.json")->text());
  OpenOptions options;
  options.compute = Compute::f32;
  options.controls = {control_of(folder + "/" + expected.at("control").get<std::string>())};
  const OpenedModel model = open_model(folder + "/model", options, false, pool);
  GenerateContext context{model.checkpoint.model.get(), &pool, &default_kernels()};
  context.compute = model.compute;
  const std::vector<std::int32_t> ids = expected.at("ids");
  const std::vector<float> plain = scored(context, ids);
  context.modifiers = model.applied;
  const std::vector<float> ours = scored(context, ids);
  const SafetensorsFile file = SafetensorsFile::open(folder + "/expected.safetensors");
  const StoredTensor& logits = file.tensors().at("logits");
  std::vector<float> theirs(ours.size());
  if (logits.dtype == "F64") {
    ASSERT_EQ(logits.bytes.size(), 8 * ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      double value = 0;
      std::memcpy(&value, logits.bytes.data() + 8 * i, 8);
      theirs[i] = static_cast<float>(value);
    }
  } else {
    ASSERT_EQ(logits.bytes.size(), 4 * ours.size());
    std::memcpy(theirs.data(), logits.bytes.data(), logits.bytes.size());
  }
  double largest = 0, change = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    largest = std::max<double>(largest, std::abs(ours[i] - theirs[i]));
    change = std::max<double>(change, std::abs(ours[i] - plain[i]));
  }
  EXPECT_LT(largest, 1e-5);
  EXPECT_GT(change, 0.01);
}

struct Stored {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::uint32_t type = 0;
};

std::string write_gguf(const std::string& path, const char* architecture, const std::vector<Stored>& tensors) {
  GgufKeys keys;
  keys.add("general.architecture", architecture);
  GgufWriter writer(path);
  for (const Stored& t : tensors) writer.add_tensor(t.name, t.shape, t.type, 4 * std::ssize(t.values));
  writer.begin(keys);
  for (const Stored& t : tensors) writer.append(std::as_bytes(std::span(t.values)));
  writer.commit();
  return path;
}

TEST(ControlFiles, WhatTheModelLacksIsRefusedByName) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const ModelConfig& config = checkpoint.model->config();
  const auto d = static_cast<std::size_t>(config.d_model);
  const int n = static_cast<int>(config.n_layers());
  const std::vector<float> row(d, 1.0f);
  const std::int64_t width = config.d_model;
  const TempFolder folder;
  const std::string path = folder / "c.gguf";
  const auto refusal = [&](const char* architecture, const std::vector<Stored>& tensors) -> std::string {
    try {
      load_control(write_gguf(path, architecture, tensors), config);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const std::vector<Stored> good = {{"direction.1", {width}, row}};
  EXPECT_EQ(refusal("controlvector", good), "");
  EXPECT_THAT(refusal("llama", good), HasSubstr("got \"llama\""));
  EXPECT_THAT(refusal("controlvector", {}), HasSubstr("at least one tensor direction.N"));
  EXPECT_THAT(refusal("controlvector", {{"direction.0", {width}, row}}), HasSubstr("direction.0"));
  EXPECT_THAT(refusal("controlvector", {{"direction.01", {width}, row}}), HasSubstr("direction.01"));
  EXPECT_THAT(refusal("controlvector", {{"direction.-1", {width}, row}}), HasSubstr("direction.-1"));
  EXPECT_THAT(refusal("controlvector", {{"blk.1.w", {width}, row}}), HasSubstr("blk.1.w"));
  const std::string beyond = fmt::format("direction.{}", n);
  EXPECT_THAT(refusal("controlvector", {{beyond, {width}, row}}), HasSubstr(beyond));
  const std::vector<float> wide(d + 1, 1.0f);
  EXPECT_THAT(refusal("controlvector", {{"direction.1", {width + 1}, wide}}),
              HasSubstr(fmt::format("expected F32 [{}], got F32 [{}]", width, width + 1)));
  EXPECT_THAT(refusal("controlvector", {{"direction.1", {width / 2, 2}, row}}), HasSubstr("direction.1"));
  const std::vector<float> half(d / 2);
  EXPECT_THAT(refusal("controlvector", {{"direction.1", {width}, half, 1}}), HasSubstr("F16"));
  std::vector<float> bad = row;
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal("controlvector", {{"direction.1", {width}, bad}}), HasSubstr("element 3 is nan"));

  write_file(path, "no file of this kind");
  EXPECT_THROW(load_control(path, config), BadInput);
  EXPECT_THROW(load_control(folder / "absent.gguf", config), BadInput);
}

TEST(ControlFiles, ATruncatedFileIsRefused) {
  const Checkpoint checkpoint = golden_checkpoint("llama_mha");
  const ModelConfig& config = checkpoint.model->config();
  const TempFolder folder;
  write_control(folder / "c.gguf", *some_control(config, 1), config);
  const std::string bytes(MappedFile::open(folder / "c.gguf")->text());
  for (std::size_t n = 0; n < bytes.size(); n += n < 300 ? 1 : 97) {
    write_file(folder / "part.gguf", std::string_view(bytes).substr(0, n));
    EXPECT_THROW(load_control(folder / "part.gguf", config), Error) << n;
  }
}

TEST(ControlFiles, AreReadAsTheyWereWritten) {
  const Checkpoint checkpoint = golden_checkpoint("gpt2");
  const ModelConfig& config = checkpoint.model->config();
  const TempFolder folder;
  auto control = std::make_shared<ControlVector>(*some_control(config, 1));
  control->model_hint = "gpt2";
  write_control(folder / "c.gguf", *control, config);
  const auto again = load_control(folder / "c.gguf", config);
  EXPECT_EQ(again->directions, control->directions);
  EXPECT_EQ(again->model_hint, "gpt2");
  EXPECT_NE(again->identity, control->identity);
}

TEST(ControlFiles, ModelsWithTwoStacksAreRefused) {
  const Checkpoint checkpoint = golden_checkpoint("pairs/t5");
  const TempFolder folder;
  const std::string path = write_gguf(folder / "c.gguf", "controlvector", {{"direction.1", {4}, {1, 2, 3, 4}}});
  EXPECT_THROW(load_control(path, checkpoint.model->config()), Unsupported);
}

TEST(ModifierTexts, AreNamePathScaleAndLayers) {
  const auto parsed = [](const std::string& text) {
    const ModifierText m = parse_control_text(text);
    const std::string layers = m.layers == LayerRange{} ? "" : fmt::format(":{}-{}", m.layers.first, m.layers.last);
    return fmt::format("{}|{}|{}|{}", m.name, m.path, m.scale, layers);
  };
  EXPECT_EQ(parsed("joy.gguf"), "|joy.gguf|1|");
  EXPECT_EQ(parsed("joy.gguf=0.5:2-3"), "|joy.gguf|0.5|:2-3");
  EXPECT_EQ(parsed("joy.gguf:2-3"), "|joy.gguf|1|:2-3");
  EXPECT_EQ(parsed("joy=a/joy.gguf=-2"), "joy|a/joy.gguf|-2|");
  EXPECT_EQ(parsed("joy=a=b/joy.gguf"), "joy|a=b/joy.gguf|1|");
  EXPECT_EQ(parsed("a/x=b/joy.gguf"), "|a/x=b/joy.gguf|1|");
  EXPECT_EQ(parsed("joy=joy.gguf=1e-1:0-0"), "joy|joy.gguf|0.1|:0-0");
  EXPECT_EQ(parsed("hf:org/name:Q4_K_M"), "|hf:org/name:Q4_K_M|1|");
  EXPECT_EQ(parse_adapter_text("joy=a:1-2=3").path, "a:1-2");
  for (const char* text : {"", "joy=", "=0.5", "joy.gguf=inf", "joy.gguf:3-2", "joy.gguf=nan:1-2", "x=:1-2"}) {
    EXPECT_THROW(parse_control_text(text), BadInput) << text;
  }
}

TEST(ModifierTexts, AFileThatExistsIsAPath) {
  const TempFolder folder;
  for (const char* name : {"v=2", "v=2:1-3"}) {
    write_file(folder / name, "");
    EXPECT_EQ(parse_control_text(folder / name).path, folder / name);
  }
}

}  // namespace
}  // namespace vitrine::test
