// Adapters of PEFT that replace the head of a classifier (modules_to_save), against its outputs in float64
// (tools/goldens/lora.py): read, merged, written again, refused.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/temp_folder.h"
#include "checkpoint/adapters/adapter.h"
#include "checkpoint/adapters/merge.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/safetensors.h"
#include "generate/classify.h"
#include "generate/open_model.h"
#include "support/backward.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {
namespace {

class HeadAdapter : public testing::TestWithParam<const char*> {
 protected:
  static std::string folder() { return goldens() + "/lora_heads/" + GetParam(); }

  const Json config_ = read_json_file(folder() + "/adapter/adapter_config.json");
  const Checkpoint base_ = golden_checkpoint(config_.at("base_model_name_or_path"));
  ThreadPool pool_{2};
  const std::shared_ptr<const LoadedAdapter> adapter_ = load_adapter(folder() + "/adapter", base_, pool_, true);
  const Values golden_ = tensors_of(folder() + "/golden.safetensors");

  std::vector<float> outputs(const Model& model, std::vector<AppliedAdapter> applied) {
    GenerateContext context{&model, &pool_, &default_kernels()};
    context.compute = Compute::f32;
    context.modifiers.adapters = applied;
    const std::vector<Ids> texts = {Ids(golden_.at("ids").data.begin(), golden_.at("ids").data.end())};
    std::vector<float> values;
    read_outputs(context, {texts}, 64,
                 [&](std::size_t, const Tensor& o) { values.assign(o.data, o.data + o.count()); });
    return values;
  }
  void expect_near(const std::vector<float>& ours, const char* name, double tolerance = 4e-6) const {
    const std::vector<float>& expected = golden_.at(name).data;
    ASSERT_EQ(ours.size(), expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
    }
  }
};

TEST_P(HeadAdapter, OutputsArePeft) {
  expect_near(outputs(*base_.model, {}), "base");
  const Checkpoint replaced = with_saved_parameters(base_, *adapter_);
  expect_near(outputs(*replaced.model, {{adapter_, 1}}), "outputs");
  expect_near(outputs(*base_.model, {}), "base");  // which is not changed
}

TEST_P(HeadAdapter, Merged) {
  const std::vector<AppliedAdapter> applied = {{adapter_, 1}};
  const Checkpoint merged = merge_adapters(
      with_saved_parameters(base_, *adapter_), applied, [](const Param&) { return DType::f32; }, pool_);
  expect_near(outputs(*merged.model, {}), "outputs", 6e-6);
}

TEST_P(HeadAdapter, IsWrittenAsItWasRead) {
  const TempFolder out;
  write_peft_adapter(out / "", *adapter_, base_, {.saved = &adapter_->saved});
  EXPECT_EQ(first_difference(tensors_of(out / "adapter_model.safetensors"),
                             tensors_of(folder() + "/adapter/adapter_model.safetensors")),
            "");
  EXPECT_EQ(read_json_file(out / "adapter_config.json").at("task_type"), "SEQ_CLS");
  const auto again = load_adapter(out / "", base_, pool_, true);
  EXPECT_EQ(outputs(*with_saved_parameters(base_, *again).model, {{again, 1}}),
            outputs(*with_saved_parameters(base_, *adapter_).model, {{adapter_, 1}}));
}

/// Where only maps are applied, the file is refused, and so is a second head.
TEST_P(HeadAdapter, IsRefusedWhereItCannotBeApplied) {
  const std::string path = folder() + "/adapter";
  EXPECT_THAT(message_of<Unsupported>([&] { load_adapter(path, base_, pool_); }),
              testing::HasSubstr("modules_to_save"));
  OpenedModel opened;
  opened.checkpoint = base_;
  opened.add({path, 1}, pool_);
  EXPECT_NE(opened.checkpoint.model, base_.model);
  EXPECT_THAT(message_of<BadInput>([&] { opened.add({path, 1}, pool_); }), testing::HasSubstr("modules_to_save"));
}

/// A tensor of a module that belongs to no head, or of another shape.
TEST_P(HeadAdapter, OtherModulesAndShapesAreRefused) {
  const auto refusal = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const TempFolder other;
    Json config = config_;
    config["modules_to_save"] = {"classifier", "score", "LayerNorm"};
    write_file(other / "adapter_config.json", config.dump());
    const SafetensorsFile file = SafetensorsFile::open(folder() + "/adapter/adapter_model.safetensors");
    SafetensorsWriter writer(other / "adapter_model.safetensors", header_bytes_for(file.tensors().size() + 1));
    for (const auto& [own, tensor] : file.tensors()) {
      if (own == name) continue;
      writer.begin(own, DType::f32, tensor.shape);
      writer.append(tensor.bytes);
    }
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    const std::vector<float> zeros(static_cast<std::size_t>(n));
    writer.begin(name, DType::f32, shape);
    writer.append(std::as_bytes(std::span(zeros)));
    writer.commit();
    return message_of<Error>([&] { load_adapter(other / "", base_, pool_, true); });
  };
  EXPECT_THAT(refusal("base_model.model.encoder.LayerNorm.bias", {4}), testing::HasSubstr("LayerNorm.bias"));
  for (const auto& [name, param] : adapter_->saved) {
    const std::string stored = name_of_head_tensor(base_, name);
    EXPECT_THAT(refusal("base_model.model." + stored, {3, 5}), testing::HasSubstr("got [3, 5]")) << stored;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HeadAdapter, testing::Values("bert", "roberta", "qwen3"));

}  // namespace
}  // namespace vitrine::test
