// Training configs: all keys are read, and unknown keys and wrong values are errors.
#include "train/train_config.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>

#include "base/error.h"
#include "checkpoint/hugging_face/config_json.h"
#include "support/figures.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

const std::string kWhole = R"(
[model]
preset = "llama-2-7b"   # line 3
set = { d_model = 64, n_layers = 2, n_heads = 4, n_kv_heads = 2, d_ff = "8/3 d, round up to 64", vocab_size = 300 }
init = "glorot"
embedding_std = 0.5

[data]
train = "shards"
validation_fraction = 0.1
tokenizer = "tokenizer.json"
mask_documents = true

[train]
steps = 2000
batch = 12
micro_batches = 3
seq_len = 64
seed = 1337
dtype = "bf16"
dropout = 0.1
label_smoothing = 0.05
z_loss = 1e-4
recompute = true

[optimizer]
beta2 = 0.99
weight_decay = 0

[schedule]
name = "stable_decay"
lr = 1e-3
warmup = 100
decay_steps = 400
end_fraction = 0

[clip]
max_norm = 0.5

[log]
every = 10
validate_every = 100
sample_every = 500
sample_prompt = "ROMEO:"
save_every = 250
keep_last = 3
taps = ["*.hook_resid_post"]
taps_every = 50
writes = ["blocks.1.attn.hook_z[:,2]=0"]

[out]
folder = "runs/a"
)";

const std::string kLeast = R"(
[model]
preset = "gpt2"
[data]
train = "text.txt"
[train]
steps = 10
batch = 4
seq_len = 8
[out]
folder = "out"
)";

/// `text` with the first `from` replaced by `to`.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    parse_train_config(text, "run.toml");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(TrainConfig, ReadsEveryKey) {
  const TrainConfig c = parse_train_config(kWhole, "run.toml");
  const ModelConfig model = read_model_config(family_of(c.model.config, "test"), c.model.config, "test");
  EXPECT_EQ(model.d_model, 64);
  EXPECT_EQ(find<DenseConfig>(model.blocks[0])->d_ff, 192);
  EXPECT_EQ(c.model.init.scheme, InitOptions::Scheme::glorot);
  EXPECT_EQ(c.model.init.embedding_std, 0.5);
  EXPECT_EQ(c.data.train, "shards");
  EXPECT_EQ(c.data.validation_fraction, 0.1);
  EXPECT_EQ(c.data.tokenizer, "tokenizer.json");
  EXPECT_TRUE(c.data.mask_documents);
  EXPECT_EQ(c.train.steps, 2000);
  EXPECT_EQ(c.train.batch, 12);
  EXPECT_EQ(c.train.micro_batches, 3);
  EXPECT_EQ(c.train.seq_len, 64);
  EXPECT_EQ(c.train.seed, 1337U);
  EXPECT_EQ(c.train.dtype, DType::bf16);
  EXPECT_EQ(c.train.dropout, 0.1);
  EXPECT_EQ(c.train.label_smoothing, 0.05);
  EXPECT_EQ(c.train.z_loss, 1e-4);
  EXPECT_TRUE(c.train.recompute);
  EXPECT_EQ(c.optimizer, (OptimizerConfig{OptimizerConfig::Kind::adamw, 0.9, 0.99, 1e-8, 0, 0.9, 0.5}));
  EXPECT_EQ(c.schedule, (ScheduleConfig{ScheduleConfig::Kind::stable_decay, 1e-3, 100, 2000, 400, 0}));
  EXPECT_EQ(c.log.every, 10);
  EXPECT_EQ(c.log.validate_every, 100);
  EXPECT_EQ(c.log.sample_every, 500);
  EXPECT_EQ(c.log.sample_prompt, "ROMEO:");
  EXPECT_EQ(c.log.save_every, 250);
  EXPECT_EQ(c.log.keep_last, 3);
  EXPECT_EQ(c.log.taps, std::vector<std::string>{"*.hook_resid_post"});
  EXPECT_EQ(c.log.taps_every, 50);
  EXPECT_EQ(c.log.writes.size(), 1U);
  EXPECT_EQ(c.out, "runs/a");
}

TEST(TrainConfig, HasFewRequiredKeys) {
  const TrainConfig c = parse_train_config(kLeast, "run.toml");
  EXPECT_EQ(c.model.config["n_embd"], 768);
  EXPECT_EQ(c.model.init, InitOptions{});
  EXPECT_EQ(c.optimizer, OptimizerConfig{});
  EXPECT_EQ(c.schedule, (ScheduleConfig{ScheduleConfig::Kind::cosine, 1e-3, 0, 10, 0, 0.1}));
  EXPECT_EQ(c.train.dtype, DType::f32);
  EXPECT_EQ(c.train.balance, StepOptions::Balance::sequence);

  const TrainConfig sgd =
      parse_train_config(kLeast + "[optimizer]\nname = \"sgd\"\nmomentum = 0.5\n[clip]\noff = true\n", "run.toml");
  EXPECT_EQ(sgd.optimizer, (OptimizerConfig{OptimizerConfig::Kind::sgd, 0.9, 0.95, 1e-8, 0, 0.5, std::nullopt}));
}

TEST(TrainConfig, ReadsAModelFromAFileATableOrACheckpoint) {
  const ScratchFolder folder;
  std::ofstream(folder / "config.json") << preset_or_config("gpt2").dump();
  const std::string preset = "preset = \"gpt2\"";
  const TrainConfig file =
      parse_train_config(with(kLeast, preset, "config = \"" + (folder / "config.json") + "\""), "run.toml");
  EXPECT_EQ(file.model.config["n_embd"], 768);
  const TrainConfig table = parse_train_config(
      with(kLeast, preset,
           "config = { model_type = \"llama\", hidden_size = 512, intermediate_size = \"8/3 d, round up to 64\", "
           "num_hidden_layers = 2, num_attention_heads = 4, vocab_size = 100, max_position_embeddings = 32 }"),
      "run.toml");
  EXPECT_EQ(table.model.config["intermediate_size"], 1408);
  const TrainConfig from = parse_train_config(with(kLeast, preset, "from = \"somewhere\""), "run.toml");
  EXPECT_EQ(from.model.checkpoint, "somewhere");
  EXPECT_TRUE(from.model.config.is_null());
}

TEST(TrainConfig, NamesUnknownKeysWithTheNearestAndTheLine) {
  EXPECT_THAT(error_of(with(kWhole, "warmup =", "warm_up =")),
              testing::AllOf(HasSubstr("run.toml:33"), HasSubstr("schedule.warm_up"), HasSubstr("mean warmup?")));
  EXPECT_THAT(error_of(with(kWhole, "[optimizer]", "[optimiser]")),
              testing::AllOf(HasSubstr("run.toml:26"), HasSubstr("mean optimizer?")));
  EXPECT_THAT(error_of("steps = 3\n" + kLeast), HasSubstr("run.toml:1"));
  EXPECT_THAT(error_of(with(kLeast, "preset = \"gpt2\"", "preset = \"gtp2\"")), HasSubstr("mean gpt2?"));
  EXPECT_THAT(error_of(with(kWhole, "\"stable_decay\"", "\"stable-decay\"")), HasSubstr("mean stable_decay?"));
}

/// Each case replaces a part of a config by something wrong.
TEST(TrainConfig, RefusesContradictionsAndWrongValues) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"preset = \"llama-2-7b\"", "preset = \"llama-2-7b\"\nfrom = \"x\"", "expected one of"},
      {"preset = \"llama-2-7b\"", "", "expected one of"},
      {"init = \"glorot\"", "init = \"glorot\"\ninit_std = 0.1", "run.toml:6"},
      {"validation_fraction = 0.1", "validation_fraction = 0.1\nvalidation = \"x\"", "validation already gives"},
      {"validation_fraction = 0.1", "", "log.validate_every"},
      {"micro_batches = 3", "micro_batches = 5", "divisor of batch 12"},
      {"preset = \"llama-2-7b\"", "preset = \"\"", "model.preset: expected a non-empty text"},
      {"train = \"shards\"", "train = \"\"", "data.train: expected a non-empty text"},
      {"folder = \"runs/a\"", "folder = \"\"", "out.folder: expected a non-empty text"},
      {"validation_fraction = 0.1", "validation_fraction = -0.1", "data.validation_fraction"},
      {"validation_fraction = 0.1", "validation_fraction = 1", "data.validation_fraction"},
      {"batch = 12", "batch = 0", "train.batch"},
      {"batch = 12", "batch = -12", "train.batch"},
      {"batch = 12", "batch = \"12\"", "train.batch"},
      {"batch = 12", "batch = 99999999999999999999", "run.toml:16"},
      {"micro_batches = 3", "micro_batches = 0", "train.micro_batches"},
      {"seq_len = 64", "seq_len = 0", "train.seq_len"},
      {"seq_len = 64", "seq_len = -1", "train.seq_len"},
      {"lr = 1e-3", "lr = -1e-3", "schedule.lr"},
      {"lr = 1e-3", "lr = inf", "finite"},
      {"lr = 1e-3", "lr = -nan", "finite"},
      {"lr = 1e-3", "lr = 1e300", "schedule.lr"},
      {"lr = 1e-3", "lr = 1e999", "run.toml:32"},
      {"warmup = 100", "warmup = -1", "schedule.warmup"},
      {"end_fraction = 0", "end_fraction = 1.5", "schedule.end_fraction"},
      {"weight_decay = 0", "weight_decay = -0.1", "optimizer.weight_decay"},
      {"max_norm = 0.5", "max_norm = -1", "clip.max_norm"},
      {"keep_last = 3", "keep_last = 0", "log.keep_last"},
      {"label_smoothing = 0.05", "label_smoothing = 2", "train.label_smoothing"},
      {"steps = 2000", "steps = 0", "whole number from 1"},
      {"steps = 2000", "steps = 2e3", "whole number from 1"},
      {"steps = 2000", "", "the key is missing"},
      {"steps = 2000", "steps = 99999999999999", "too many"},
      {"seed = 1337", "seed = -1", "train.seed"},
      {"dtype = \"bf16\"", "dtype = \"f16\"", "f32, bf16"},
      {"dropout = 0.1", "dropout = 1.0", "train.dropout"},
      {"dropout = 0.1", "dropout = nan", "finite"},
      {"dropout = 0.1", "dropout = 1979-05-27", "finite"},
      {"recompute = true", "recompute = 1", "true or false"},
      {"z_loss = 1e-4", "balance = \"sequence\"", "without balance_loss"},
      {"z_loss = 1e-4", "balance_loss = 0.01", "this one has none"},
      {"z_loss = 1e-4", "router_bias_rate = 0.01", "this model has none"},
      {"seq_len = 64", "seq_len = 100000", "the model's context"},
      {"weight_decay = 0", "momentum = 0.9", "AdamW has none"},
      {"beta2 = 0.99", "beta2 = 1", "optimizer.beta2"},
      {"decay_steps = 400", "", "decay_steps"},
      {"decay_steps = 400", "decay_steps = 1950", "decay_steps"},
      {"name = \"stable_decay\"", "name = \"cosine\"", "applies to"},
      {"warmup = 100", "warmup = 2000", "warmup"},
      {"max_norm = 0.5", "max_norm = 0.5\noff = true", "clip.max_norm"},
      {"max_norm = 0.5", "max_norm = 0", "clip.max_norm"},
      {"sample_every = 500", "", "without sample_every"},
      {"taps_every = 50", "", "without taps_every"},
      {"taps = [\"*.hook_resid_post\"]", "", "without taps"},
      {"taps = [\"*.hook_resid_post\"]", "taps = [1]", "list of texts"},
      {"writes = [\"blocks.1.attn.hook_z[:,2]=0\"]", "writes = [\"no write\"]", "no write"},
      {"folder = \"runs/a\"", "", "out.folder"},
      {"d_ff = \"8/3 d, round up to 64\"", "d_ff = \"large\"", "large"},
      {"n_heads = 4", "n_heads = 0", "num_attention_heads"},
      {"n_heads = 4", "n_haeds = 4", "n_haeds"},
      {"train = \"shards\"", "train = \"shards\"\ntrain = \"twice\"", "run.toml:10"},
      {"[data]", "[data", "run.toml:8"},
  };
  for (const auto& [from, to, message] : cases) {
    EXPECT_THAT(error_of(with(kWhole, from, to)), HasSubstr(message)) << from << " → " << to;
  }
  EXPECT_THAT(error_of(with(kLeast, "preset = \"gpt2\"", "from = \"x\"\ninit = \"gpt2\"")),
              HasSubstr("no effect on a model from a checkpoint"));
  EXPECT_THAT(error_of(kLeast + "[optimizer]\nname = \"sgd\"\nbeta1 = 0.9"), HasSubstr("SGD has none"));
  EXPECT_THAT(error_of(kLeast + "[schedule]\nname = \"constant\"\nend_fraction = 0.5"), HasSubstr("end_fraction"));
  EXPECT_THAT(error_of("model = 3"), HasSubstr("expected a table [model]"));
  EXPECT_THAT(error_of(""), HasSubstr("expected one of"));
  EXPECT_THROW(read_train_config("/no/such/file.toml"), BadInput);
}

/// A row of the table of keys in docs/training.md.
struct DocumentedKey {
  std::string key, type, default_value;  ///< `default_value` is a TOML value, or empty if there is none.
};

std::vector<DocumentedKey> documented_keys() {
  std::ifstream in(std::string(VITRINE_SOURCE_DIR) + "/docs/training.md");
  const std::regex row("\\| `([a-z]+\\.[a-z0-9_]+)` \\| ([^|]+) \\| ([^|]+) \\| [^|]+ \\|");
  std::vector<DocumentedKey> keys;
  std::smatch match;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, match, row)) continue;
    const std::string default_value = match[3];
    const bool is_value = default_value.starts_with('`') && default_value.ends_with('`');
    keys.push_back({match[1], match[2], is_value ? default_value.substr(1, default_value.size() - 2) : ""});
  }
  return keys;
}

const std::string kDotted = R"(
data.train = "t"
train.steps = 10
train.batch = 4
train.seq_len = 8
out.folder = "o"
)";

const std::string kTalk = R"(
train.steps = 10
train.batch = 4
train.seq_len = 8
out.folder = "o"
model.from = "m"
)";

const std::string kSae = R"(
data.train = "t"
train.steps = 10
train.batch = 4
out.folder = "o"
model.from = "m"
sae.site = "s"
sae.d_sae = 8
)";

const std::string kLens = "data.ids = 'i'\ntrain.seq_len = 8\nout.folder = 'o'\nmodel.from = 'm'\n";

TEST(TrainConfig, TheTableOfKeysIsComplete) {
  std::vector<std::string> written, known = train_config_keys();
  for (const DocumentedKey& row : documented_keys()) written.push_back(row.key);
  std::sort(written.begin(), written.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(written, known);
  EXPECT_GT(known.size(), 40U);
}

/// Writing a default explicitly changes nothing in the first of these configs that accepts the key.
TEST(TrainConfig, TheTableOfKeysHasTheDefaults) {
  const std::string gpt2 = kDotted + "model.preset = 'gpt2'\n";
  const std::vector<std::string> configs = {
      gpt2,
      gpt2 + "model.init = 'gpt2'\n",
      gpt2 + "optimizer.name = 'sgd'\n",
      gpt2 + "log.sample_every = 1\n",
      kDotted + "model.preset = 'bert-base'\ntrain.objective = 'masked'\n",
      gpt2 + "data.validation_fraction = 0.1\n",
      gpt2 + "data.validation_fraction = 0.1\nlog.validate_every = 1\n",
      kDotted + "model.preset = 'mixtral-8x7b'\ntrain.balance_loss = 0.1\n",
      kDotted + "model.from = 'gpt2'\nlora.rank = 8\n",
      kDotted + "model.from = 'gpt2'\nlora.dropout = 0\n",
      kTalk + "data.conversations = 'c.jsonl'\n",
      kTalk + "data.pairs = 'p.jsonl'\n",
      kTalk + "data.pairs = 'p.jsonl'\npreference.objective = 'simpo'\n",
      kTalk + "data.texts = 't.jsonl'\ntrain.task = 'embed'\n",
      kTalk + "data.texts = 't.jsonl'\ntrain.task = 'classify'\nmodel.labels = ['a']\n",
      kSae,
      kSae + "sae.architecture = 'batchtopk'\n",
      kSae + "sae.architecture = 'jumprelu'\n",
      kSae + "sae.architecture = 'jumprelu'\nsae.jumprelu_sparsity_loss_mode = 'tanh'\n",
      kSae + "sae.lr_scheduler_name = 'cosineannealingwarmrestarts'\n",
      kSae + "sae.normalize_activations = 'expected_average_only_in'\n",
      kLens + "train.steps = 1\ntrain.batch = 1\nlens.kind = 'tuned'\n",
      kLens + "lens.kind = 'jacobian'\n",
  };
  std::size_t with_default = 0;
  for (const DocumentedKey& row : documented_keys()) {
    if (row.default_value.empty()) continue;
    ++with_default;
    bool taken = false;
    for (const std::string& config : configs) {
      const std::string written = config + row.key + " = " + row.default_value + "\n";
      if (taken || error_of(written) != "no error") continue;
      taken = true;
      EXPECT_EQ(parse_train_config(written, "t"), parse_train_config(config, "t")) << row.key;
    }
    EXPECT_TRUE(taken) << row.key << ": " << error_of(configs[0] + row.key + " = " + row.default_value);
  }
  EXPECT_GT(with_default, 35U);
  for (const char* required : {"data.train", "train.steps", "train.batch", "train.seq_len", "out.folder"}) {
    std::string without = gpt2;
    without.replace(without.find(required), std::string(required).size(), "# ");
    EXPECT_THAT(error_of(without), testing::AllOf(HasSubstr(required), HasSubstr("the key is missing")));
  }
}

TEST(TrainConfig, TheTableOfKeysHasTheTypes) {
  const std::map<std::string, std::string> wrong = {{"text", "3"},
                                                    {"number", "'x'"},
                                                    {"whole number", "0.5"},
                                                    {"true or false", "1"},
                                                    {"list of texts", "'x'"},
                                                    {"table", "'x'"},
                                                    {"text or table", "3"},
                                                    {"text or list", "3"},
                                                    {"list of whole numbers", "'x'"},
                                                    {"list of numbers", "'x'"}};
  for (const DocumentedKey& row : documented_keys()) {
    ASSERT_TRUE(wrong.contains(row.type)) << row.key << ": " << row.type;
    const bool is_source = row.key == "model.config" || row.key == "model.from" || row.key == "model.preset";
    std::string config = is_source ? kDotted : kDotted + "model.preset = 'gpt2'\n";
    if (row.key.starts_with("sae.")) config = kSae;
    if (row.key.starts_with("lens.")) {
      config = kLens + "lens.kind = " + (row.key == "lens.start" ? "'tuned'\n" : "'jacobian'\n");
    }
    const std::size_t own = config.find("\n" + row.key + " =");
    if (own != std::string::npos) config.insert(own + 1, "# ");
    const std::string error = error_of(config + row.key + " = " + wrong.at(row.type));
    EXPECT_THAT(error, HasSubstr(row.key + ":")) << error;
  }
}

TEST(TrainConfig, SurvivesHostileText) {
  for (std::size_t length = 0; length < kWhole.size(); length += 7) error_of(kWhole.substr(0, length));
  EXPECT_NE(error_of(std::string(100'000, '[')), "no error");
  EXPECT_NE(error_of("a = " + std::string(10'000, '[') + std::string(10'000, ']')), "no error");
  EXPECT_NE(error_of(std::string("a = \"\xff\xfe\"")), "no error");
  EXPECT_NE(error_of(std::string("[model]\n\0x = 1", 14)), "no error");
  // Text for which toml++ has undefined behavior (fuzz/corpus/train_config/found-…).
  EXPECT_THAT(error_of(std::string("\n[\0\0\0preset = 1", 15)), HasSubstr("run.toml:2"));
  EXPECT_THAT(error_of("[out]\nfoldér = 'x'"), HasSubstr("run.toml:2] characters beyond ASCII"));
  EXPECT_THAT(error_of("\na = 1.\"Γ\""), HasSubstr("run.toml:2"));
  EXPECT_THAT(error_of("\na = 2020-01-01 \"Γ\""), HasSubstr("run.toml:2"));
  EXPECT_THAT(error_of("a = \"\"\"x\\é\"\"\""), HasSubstr("characters beyond ASCII"));
  EXPECT_THAT(error_of("\na = \"\xC3\""), HasSubstr("run.toml:2] expected UTF-8"));
  EXPECT_THAT(error_of("a = \"\\u007E/x\""), HasSubstr("write ~ as it is"));
  EXPECT_THAT(error_of("[out]\n~ = 'x'"), HasSubstr("~, are allowed in quotes"));
  EXPECT_EQ(parse_train_config(with(kLeast, "\"text.txt\"", "'~/7e~é~7E.txt'"), "run.toml").data.train,
            "~/7e~é~7E.txt");
  for (const char* fine :
       {"\"é\"", "'é'  # é", "\"\"\"é \\\n e\"\" é\"\"\"\"", "'''é''\né'''", "\"\"\"x \\  \n é\"\"\"", "\"\\\"é\""}) {
    const std::string text = with(kLeast, "\"text.txt\"", fine);
    EXPECT_THAT(parse_train_config(text, "run.toml").data.train, HasSubstr("é")) << fine;
  }
  for (const char* bad : {"[[[", "[=]", "[", "[[", "[.a]", "[ +a]"})
    EXPECT_THAT(error_of(bad), HasSubstr("run.toml:1"));
  EXPECT_EQ(parse_train_config("\xEF\xBB\xBF" + kLeast, "run.toml").out, "out");
  EXPECT_THAT(error_of(std::string(2'000'000, '#')), HasSubstr("at most"));
}

}  // namespace
}  // namespace vitrine::test
