// Training on texts: every task learns, whatever parts a step has, is resumed with the same bits, and is shared by
// ranks. tools/check_text_training.py compares the steps with sentence-transformers.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/param_rows.h"
#include "checkpoint/safetensors.h"
#include "generate/open_model.h"
#include "support/backward.h"
#include "support/data.h"
#include "support/local_ranks.h"
#include "support/training.h"
#include "train/distributed/batch_part.h"
#include "train/text_data.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Words w5 to w46, which all goldens have.
std::string words_tokenizer() {
  std::string vocabulary = R"("[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"[MASK]":4)";
  for (int i = 5; i < 47; ++i) vocabulary += fmt::format(",\"w{}\":{}", i, i);
  return R"({"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{)" + vocabulary +
         R"(}},"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":{"type":"BertProcessing",)"
         R"("sep":["[SEP]",2],"cls":["[CLS]",1]}})";
}

/// A model of the goldens, examples for it, and the keys of a config.
struct TextCase {
  std::string name, golden, task;
  std::function<Json(std::function<int(int)>)> line;  // draws numbers below its argument
  std::string loss = "";
  std::string model = "";
};

std::string text(const std::function<int(int)>& draw) {
  std::string words = fmt::format("w{}", 5 + draw(42));
  for (int n = draw(9); n > 0; --n) words += fmt::format(" w{}", 5 + draw(42));
  return words;
}

std::vector<TextCase> text_cases() {
  const auto pair = [](auto draw) { return Json{{"anchor", text(draw)}, {"positive", text(draw)}}; };
  const auto scored = [](auto draw) {
    return Json{{"sentence1", text(draw)}, {"sentence2", text(draw)}, {"score", 0.25 * draw(5)}};
  };
  const auto listed = [](auto draw) {
    Json line = {{"query", text(draw)}, {"documents", Json::array()}, {"labels", Json::array()}};
    for (int n = 2 + draw(3); n > 0; --n) {
      line["documents"].push_back(text(draw));
      line["labels"].push_back(draw(3));
    }
    return line;
  };
  const auto tagged = [](auto draw) {
    Json line = {{"tokens", Json::array()}, {"tags", Json::array()}};
    for (int n = 1 + draw(8); n > 0; --n) {
      line["tokens"].push_back(fmt::format("w{}", 5 + draw(42)));
      line["tags"].push_back(draw(5));
    }
    return line;
  };
  return {
      {"classify", "heads/bert_classes", "classify",
       [](auto draw) {
         return Json{{"text", text(draw)}, {"text_pair", text(draw)}, {"label", draw(3)}};
       }},
      {"several", "masked/bert", "classify",
       [](auto draw) {
         return Json{{"text", text(draw)}, {"label", {draw(2), draw(2)}}};
       },
       "", "labels = ['a', 'b']\nproblem_type = 'multi_label_classification'\n"},
      {"regression", "masked/distilbert", "classify",
       [](auto draw) {
         return Json{{"text", text(draw)}, {"label", 0.5 * draw(5)}};
       },
       "", "labels = ['x']\n"},
      {"tag", "heads/bert_tags", "tag", tagged},
      {"decoder", "heads/qwen3_reward", "rerank",
       [](auto draw) {
         return Json{{"query", text(draw)}, {"document", text(draw)}, {"label", draw(2)}};
       }},
      {"lists", "heads/distilbert_classes", "rerank", listed, "name = 'RankNetLoss'\n"},
      {"ranking", "masked/bert", "embed", pair, "symmetric = true\nmatryoshka_dims = [24, 8]\n"},
      {"cosent", "masked/bert", "embed", scored, "name = 'CoSENT'\n"},
      {"cosine", "masked/roberta", "embed", scored, "name = 'CosineSimilarityLoss'\n"},
      {"dense", "masked/bert", "embed",
       [](auto draw) {
         return Json{{"query", text(draw)},
                     {"positive", text(draw)},
                     {"negative", text(draw)},
                     {"negative_1", text(draw)},
                     {"label", {0.25 * draw(5), 0.5 * draw(3)}}};
       },
       "name = 'MarginMSE'\n"},
      {"words", "masked/bert", "embed", pair, "document_regularizer_weight = 0.1\nquery_regularizer_weight = 0.1\n"},
  };
}

/// Makes a masked word model a model whose vectors are weights of words.
void write_splade(const std::string& folder) {
  std::ofstream(folder + "/modules.json")
      << R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.MLMTransformer"},)"
         R"({"idx":1,"name":"1","path":"1_SpladePooling","type":"sentence_transformers.models.SpladePooling"}])";
  std::ofstream(folder + "/config_sentence_transformers.json") << R"({"model_type":"SparseEncoder"})";
  fs::create_directories(folder + "/1_SpladePooling");
  std::ofstream(folder + "/1_SpladePooling/config.json") << R"({"pooling_strategy":"max"})";
}

/// Joins poolings of the rows, maps them, and normalizes the result.
void write_dense(const std::string& folder) {
  std::ofstream(folder + "/modules.json")
      << R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},)"
         R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},)"
         R"({"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"},)"
         R"({"idx":3,"name":"3","path":"3_Normalize","type":"sentence_transformers.models.Normalize"}])";
  for (const char* const name : {"1_Pooling", "2_Dense"}) fs::create_directories(folder + "/" + name);
  const auto d = Json::parse(bytes_of(folder + "/config.json"))["hidden_size"].get<std::int64_t>();
  const Json pooling = {{"embedding_dimension", d}, {"pooling_mode", {"cls", "weightedmean", "max"}}};
  const Json dense = {{"in_features", 3 * d}, {"out_features", 11}, {"bias", true}};
  std::ofstream(folder + "/1_Pooling/config.json") << pooling;
  std::ofstream(folder + "/2_Dense/config.json") << dense;
  std::vector<float> weights(static_cast<std::size_t>(33 * d)), bias(11, 0.1f);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.3f * std::sin(static_cast<float>(i * i));
  SafetensorsWriter writer(folder + "/2_Dense/model.safetensors", 1000);
  writer.begin("linear.weight", DType::f32, {11, 3 * d});
  writer.append(std::as_bytes(std::span(weights)));
  writer.begin("linear.bias", DType::f32, {11});
  writer.append(std::as_bytes(std::span(bias)));
  writer.commit();
}

class TextTraining : public testing::Test {
 protected:
  /// Copies the model and writes 21 examples.
  void prepare(const TextCase& c) const {
    const std::string model = folder_ / c.name;
    fs::create_directories(model);
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(goldens() + "/" + c.golden + "/" + file, model + "/" + file, fs::copy_options::overwrite_existing);
    }
    std::ofstream(model + "/tokenizer.json") << words_tokenizer();
    if (c.name == "words") write_splade(model);
    if (c.name == "dense") write_dense(model);
    std::uint32_t state = 3;
    const auto draw = [&](int below) {
      state = state * 1664525U + 1013904223U;
      return static_cast<int>(state >> 16U) % below;
    };
    std::ofstream out(folder_ / (c.name + ".jsonl"));
    for (int i = 0; i < 21; ++i) out << c.line(draw).dump() << "\n";
  }
  std::string config(const TextCase& c, const std::string& out, int steps, int parts,
                     const std::string& more = "") const {
    return fmt::format(
        "[model]\nfrom = '{}'\n{}[data]\ntexts = '{}'\nvalidation_fraction = 0.2\n[train]\ntask = '{}'\nsteps = {}\n"
        "batch = 8\nmicro_batches = {}\n{}[loss]\n{}[schedule]\nname = 'constant'\nlr = 3e-3\n"
        "[log]\nsave_every = 2\nvalidate_every = 2\n[out]\nfolder = '{}'\n",
        folder_ / c.name, c.model, folder_ / (c.name + ".jsonl"), c.task, steps, parts, more, c.loss, folder_ / out);
  }
  static TrainResult run(const std::string& text, bool resume = false, int threads = 2, Ranks* ranks = nullptr,
                         Shard shard = Shard::none) {
    TrainRun run;
    run.threads = threads;
    run.resume = resume;
    run.build = "test";
    run.ranks = ranks;
    run.shard = shard;
    return train(parse_train_config(text, "config"), run);
  }
  void expect_same(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metrics_of(folder_ / a), metrics_of(folder_ / b));
    for (const char* const file : {"model.safetensors", "trainer_state.safetensors", "2_Dense/model.safetensors"}) {
      if (!fs::exists(folder_ / (a + "/last/" + file))) continue;
      EXPECT_TRUE(bytes_of(folder_ / (a + "/last/" + file)) == bytes_of(folder_ / (b + "/last/" + file))) << b << file;
    }
  }
  std::string error_of(const TextCase& c, const std::string& line, const std::string& loss = "") const {
    prepare(c);
    std::ofstream(folder_ / (c.name + ".jsonl")) << line << "\n";
    TextCase own = c;
    if (!loss.empty()) own.loss = "name = '" + loss + "'\n";
    fs::remove_all(folder_ / "errors");
    std::string text = config(own, "errors", 1, 1);
    text.replace(text.find("validation_fraction"), 25, "");
    text.replace(text.find("validate_every = 2"), 18, "");
    try {
      run(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  const TempFolder folder_;
};

TEST_F(TextTraining, EveryTaskLearns) {
  for (const TextCase& c : text_cases()) {
    SCOPED_TRACE(c.name);
    prepare(c);
    run(config(c, c.name + "-run", 30, 1));
    const std::vector<double> losses = losses_of(folder_ / (c.name + "-run"));
    ASSERT_EQ(losses.size(), 30U);
    EXPECT_LT(losses.back(), 0.8 * losses.front());
    const Checkpoint trained = load_checkpoint(folder_ / (c.name + "-run/last"));
    EXPECT_EQ(trained.model->config().task.has_value(), c.task != "embed");
    EXPECT_EQ(fs::exists(folder_ / (c.name + "-run/last/modules.json")), c.task == "embed");
  }
}

TEST_F(TextTraining, ThePartsOfAStepChangeNothing) {
  for (const TextCase& c : text_cases()) {
    SCOPED_TRACE(c.name);
    prepare(c);
    run(config(c, c.name + "-1", 3, 1));
    const std::vector<Json> whole = metrics_of(folder_ / (c.name + "-1"));
    for (const int parts : {2, 8}) {
      const std::string out = fmt::format("{}-{}", c.name, parts);
      run(config(c, out, 3, parts));
      const std::vector<Json> in_parts = metrics_of(folder_ / out);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        for (const char* key : {"loss", "grad_norm"}) {
          const double expected = whole[i][key].get<double>();
          EXPECT_NEAR(in_parts[i][key].get<double>(), expected, 2e-5 * expected) << key << " of step " << i;
        }
      }
    }
  }
}

/// All parameters of a checkpoint, one after another.
std::vector<double> weights_of(const std::string& folder) {
  std::vector<double> all;
  const Checkpoint checkpoint = load_checkpoint(folder);
  for_each_param(checkpoint.model->config(), checkpoint.model->params(),
                 [&](const Param& param, const std::string&, const Shape&) {
                   for (std::int64_t row = 0; row < param.view.rows; ++row) {
                     std::vector<float> values(static_cast<std::size_t>(param.view.cols));
                     read_row(param.view, row, values);
                     all.insert(all.end(), values.begin(), values.end());
                   }
                 });
  return all;
}

double norm(const std::vector<double>& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

// One step of SGD with a large rate, without clipping: the new weights are the gradients.
TEST_F(TextTraining, GradientsOfPartsAreThoseOfTheBatch) {
  for (const TextCase& c : text_cases()) {
    if (c.task != "embed") continue;
    SCOPED_TRACE(c.name);
    prepare(c);
    std::vector<std::vector<double>> gradients;
    for (const int parts : {1, 8}) {
      const std::string out = fmt::format("{}-sgd-{}", c.name, parts);
      std::string text = config(c, out, 1, parts) + "[optimizer]\nname = 'sgd'\nmomentum = 0\n[clip]\noff = true\n";
      text.replace(text.find("lr = 3e-3"), 9, "lr = 1e6");
      run(text);
      gradients.push_back(weights_of(folder_ / (out + "/last")));
    }
    std::vector<double> differences;
    std::transform(gradients[0].begin(), gradients[0].end(), gradients[1].begin(), std::back_inserter(differences),
                   std::minus<>());
    EXPECT_LT(norm(differences), 1e-6 * norm(gradients[0]));
    EXPECT_GT(norm(gradients[0]), 1e3);
  }
}

TEST_F(TextTraining, AResumedRunHasTheSameBits) {
  for (const TextCase& c : text_cases()) {
    SCOPED_TRACE(c.name);
    prepare(c);
    const std::string dropout = "dropout = 0.1\n";
    run(config(c, c.name + "-whole", 5, 4, dropout));
    run(config(c, c.name + "-again", 4, 4, dropout), false, 1);
    run(config(c, c.name + "-again", 5, 4, dropout), true);
    expect_same(c.name + "-whole", c.name + "-again");
  }
}

TEST_F(TextTraining, RanksComputeTheBitsOfOne) {
  for (const TextCase& c : text_cases()) {
    SCOPED_TRACE(c.name);
    prepare(c);
    run(config(c, c.name + "-one", 3, 4));
    for (const Shard shard : {Shard::none, Shard::parameters}) {
      const std::string out = fmt::format("{}-{}", c.name, name_of(shard));
      run_local_ranks(3, [&](Ranks& ranks) { run(config(c, out, 3, 4), false, 1, &ranks, shard); });
      expect_same(c.name + "-one", out);
    }
  }
}

/// The map after the model learns with it, and is written where the folder has it.
TEST_F(TextTraining, StepsAfterTheModelLearn) {
  const std::vector<TextCase> cases = text_cases();
  const auto dense = std::find_if(cases.begin(), cases.end(), [](const TextCase& c) { return c.name == "dense"; });
  prepare(*dense);
  run(config(*dense, "steps", 3, 2));
  for (const char* const file : {"modules.json", "1_Pooling/config.json", "2_Dense/config.json"}) {
    EXPECT_EQ(bytes_of(folder_ / ("steps/last/" + std::string(file))),
              bytes_of(folder_ / ("dense/" + std::string(file))));
  }
  const auto tensors_in = [&](const std::string& name) {
    return tensors_of(folder_ / (name + "/2_Dense/model.safetensors"));
  };
  const Values before = tensors_in("dense"), after = tensors_in("steps/last");
  ASSERT_EQ(after.size(), 2U);
  for (const auto& [name, value] : before) {
    EXPECT_EQ(after.at(name).shape, value.shape);
    EXPECT_NE(after.at(name).data, value.data) << name;
  }
}

TEST_F(TextTraining, AnAdapterLearns) {
  const TextCase c = text_cases()[0];
  prepare(c);
  run(config(c, "lora", 20, 2) + "[lora]\nrank = 4\n");
  const std::vector<double> losses = losses_of(folder_ / "lora");
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_TRUE(fs::exists(folder_ / "lora/last/adapter_model.safetensors"));
}

/// A new head learns with an adapter, and is written with it (modules_to_save).
TEST_F(TextTraining, ANewHeadLearnsWithAnAdapter) {
  for (const TextCase& c : {text_cases()[1], text_cases()[2]}) {
    SCOPED_TRACE(c.name);
    prepare(c);
    const std::string lora = "[lora]\nrank = 4\ndropout = 0.1\n", name = c.name + "-lora";
    run(config(c, name, 20, 4) + lora);
    const std::vector<double> losses = losses_of(folder_ / name);
    EXPECT_LT(losses.back(), 0.9 * losses.front());
    run(config(c, c.name + "-stopped", 18, 4) + lora, false, 1);
    run(config(c, c.name + "-stopped", 20, 4) + lora, true);
    run_local_ranks(2, [&](Ranks& ranks) { run(config(c, c.name + "-two", 20, 4) + lora, false, 1, &ranks); });
    for (const char* const file : {"adapter_model.safetensors", "adapter_config.json", "trainer_state.safetensors"}) {
      const std::string own = bytes_of(folder_ / (name + "/last/" + file));
      EXPECT_TRUE(own == bytes_of(folder_ / (c.name + "-stopped/last/" + file))) << file;
      if (file != std::string("trainer_state.safetensors")) {
        EXPECT_TRUE(own == bytes_of(folder_ / (c.name + "-two/last/" + file))) << file;
      }
    }
    ThreadPool pool(1);
    OpenedModel opened{load_checkpoint(folder_ / c.name)};
    opened.add(OpenAdapter{folder_ / (name + "/last")}, pool);
    const ModelConfig& model = opened.checkpoint.model->config();
    ASSERT_TRUE(model.task);
    EXPECT_EQ(model.task->labels,
              c.name == "several" ? std::vector<std::string>({"a", "b"}) : std::vector<std::string>({"x"}));
    const Json written = Json::parse(bytes_of(folder_ / (name + "/last/adapter_config.json")));
    EXPECT_EQ(written["task_type"], "SEQ_CLS");
    EXPECT_EQ(written["modules_to_save"],
              c.name == "several" ? Json({"bert.pooler.dense", "classifier"}) : Json({"classifier", "pre_classifier"}));
  }
  const TextCase several = text_cases()[1];
  EXPECT_THAT([&] { run(config(several, "pooler", 1, 1) + "[lora]\ntargets = ['q', 'pooler.dense']\n"); },
              testing::ThrowsMessage<BadInput>(HasSubstr("lora.targets")));
}

TEST_F(TextTraining, ANewHeadIsNamedInTheConfig) {
  const TextCase c = text_cases()[1];
  prepare(c);
  run(config(c, "head", 1, 1));
  const Json written = Json::parse(bytes_of(folder_ / "head/last/config.json"));
  EXPECT_EQ(written["architectures"], Json({"BertForSequenceClassification"}));
  EXPECT_EQ(written["id2label"], Json({{"0", "a"}, {"1", "b"}}));
  EXPECT_EQ(written["label2id"], Json({{"a", 0}, {"b", 1}}));
  EXPECT_EQ(written["problem_type"], "multi_label_classification");
}

TEST_F(TextTraining, ErrorsNameTheLineAndWhatIsExpected) {
  const std::vector<TextCase> cases = text_cases();
  const TextCase &classify = cases[0], &tag = cases[3], &lists = cases[5], &ranking = cases[6], &cosent = cases[7];
  EXPECT_THAT(error_of(classify, R"({"text": "w5"})"), HasSubstr("the column label is missing"));
  EXPECT_THAT(error_of(classify, R"({"label": 1})"), HasSubstr("classify.jsonl, line 1] the column text is missing"));
  EXPECT_THAT(error_of(classify, R"({"text": "w5", "label": 3})"), HasSubstr("its number from 0 to 2, got 3"));
  EXPECT_THAT(error_of(classify, R"({"text": "w5", "label": "LABEL_9"})"), HasSubstr("no label \"LABEL_9\""));
  EXPECT_THAT(error_of(classify, R"({"text": "w5", "label": 1, "extra": 2})"),
              HasSubstr("column extra has no meaning"));
  EXPECT_THAT(error_of(classify, R"({"text": 3, "label": 1})"), HasSubstr("text: expected a text, got number"));
  EXPECT_THAT(error_of(classify, R"({"text": "w5", "sentence": "w6", "label": 1})"), HasSubstr("got both"));
  EXPECT_THAT(error_of(classify, "[]"), HasSubstr("expected a JSON object on each line"));
  EXPECT_THAT(error_of(tag, R"({"tokens": ["w5", "w6"], "tags": [1]})"), HasSubstr("a list of 2, one for each token"));
  EXPECT_THAT(error_of(lists, R"({"query": "w5", "documents": ["w6", "w7"], "labels": [1]})"),
              HasSubstr("expected 2 numbers, got 1"));
  EXPECT_EQ(error_of(lists, R"({"query": "w5", "documents": ["w6", "w7"], "labels": [1, 0]})", "MarginMSE"),
            "no error");
  EXPECT_THAT(error_of(lists, R"({"query": "w5", "document": "w6", "label": 1})", "CoSENT"),
              HasSubstr("loss.name: expected BinaryCrossEntropyLoss, RankNetLoss"));
  EXPECT_THAT(error_of(ranking, R"({"anchor": "w5"})"), HasSubstr("the column positive is missing"));
  EXPECT_THAT(error_of(ranking, R"({"anchor": "w5", "positive": "w6", "label": 1})"), HasSubstr("reads no label"));
  EXPECT_THAT(error_of(cosent, R"({"sentence1": "w5", "sentence2": "w6"})"), HasSubstr("the column label is missing"));
}

TEST(TextBatch, PartsHaveWholeExamples) {
  Batch batch;
  for (const int n : {3, 1, 2, 2}) {
    TextExample example;
    for (int i = 0; i < n; ++i) example.pieces.push_back({{1, 2, static_cast<std::int32_t>(n)}});
    example.labels = {static_cast<double>(n)};
    append_example(example, batch);
  }
  EXPECT_EQ(batch.n_counted(), 4);
  EXPECT_EQ(batch.n_pieces(2), 4);
  const BatchPart second = part_of(batch, 1, 2);
  EXPECT_EQ(second.first_piece, 4U);
  EXPECT_EQ(second.segments.size(), 4U);
  ASSERT_EQ(second.examples.size(), 2U);
  EXPECT_EQ(second.examples[0].labels[0], 2);
}

}  // namespace
}  // namespace vitrine::test
