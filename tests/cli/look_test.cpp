// vitrine look: the page's index and blocks, its size limit, hostile texts, and errors. `make page-test` drives the
// page in a browser.
#include <regex>

#include "cli/look_page.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

const std::string kText = "Once upon a time there was a little girl";

TEST(LookCommand, ThePredictionsAreThoseOfPredict) {
  const WrittenPage page = look({kText});
  const Json predicted = json_of({"predict", kText})["tokens"];
  const auto ids = values_of<std::int32_t>(page, "top.id");
  const auto probs = values_of<double>(page, "top.prob");
  ASSERT_EQ(ids.size(), predicted.size() * 10);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], predicted[i / 10]["top"][i % 10]["id"]);
    EXPECT_EQ(probs[i], predicted[i / 10]["top"][i % 10]["prob"]);
  }
}

TEST(LookCommand, TheFunnelDrawsWhatGenerateDraws) {
  for (const char* seed : {"0", "1", "2", "3", "4"}) {
    const WrittenPage page = look({kText, "--seed", seed});
    const auto ids = values_of<std::int32_t>(page, "funnel.id"), kept = values_of<std::int32_t>(page, "funnel.kept");
    const auto probs = values_of<double>(page, "funnel.prob");
    double total = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) total += kept[i] == 0 ? probs[i] : 0;
    double rest = values_of<double>(page, "funnel.draw").front() * total;
    std::size_t drawn = 0;
    while (kept[drawn] != 0 || (rest -= probs[drawn]) >= 0) ++drawn;
    EXPECT_EQ(ids[drawn], json_of({"generate", kText, "--max-tokens", "1", "--seed", seed})["ids"].back());
  }
}

TEST(LookCommand, TheFunnelSamplesAsTheCheckpointSays) {
  const TempFolder folder;
  const std::string model = folder / "model";
  std::filesystem::copy(golden("gemma2"), model);
  std::ofstream(model + "/generation_config.json")
      << R"({"do_sample": true, "temperature": 1.5, "top_k": 7, "top_p": 0.9, "repetition_penalty": 1.3})";
  const Arguments text = {model, "--ids", "2,5,40,5", "--seed", "3"};
  const WrittenPage page = look(text);
  EXPECT_EQ(page.index["sampling"], Json({{"temperature", 1.5},
                                          {"top_k", 7},
                                          {"top_p", 0.9},
                                          {"min_p", 0},
                                          {"typical_p", 1},
                                          {"epsilon_cutoff", 0},
                                          {"eta_cutoff", 0},
                                          {"xtc_probability", 0},
                                          {"xtc_threshold", 0.1},
                                          {"top_n_sigma", 0},
                                          {"repeat_penalty", 1.3}}));
  EXPECT_EQ(page.index["filters"], Json({"top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "epsilon_cutoff",
                                         "eta_cutoff", "xtc_probability"}));
  const auto kept = values_of<std::int32_t>(page, "funnel.kept");
  EXPECT_LE(std::count(kept.begin(), kept.end(), 0), 7);
  const auto logits = values_of<double>(page, "funnel.logit");
  EXPECT_TRUE(std::is_sorted(logits.rbegin(), logits.rend()));
  for (const Json& option : page.index["sampling_options"]) {
    EXPECT_TRUE(page.index["sampling"].contains(option["name"].get<std::string>())) << option;
  }
  std::ofstream(model + "/generation_config.json") << R"({"do_sample": false})";
  EXPECT_EQ(look(text).index["sampling"]["temperature"], 0.8) << "at temperature 0 nothing is drawn";
}

TEST(LookCommand, EveryKindOfDenseMlpIsDrawn) {
  // With norms before sublayers, after them, shared by parallel ones; in layers between those with experts.
  for (const char* family : {"gpt2", "olmo2", "cohere", "gpt_neox", "phi", "falcon"}) {
    const WrittenPage page = look({golden(family), "--ids", "1,5,9,2"});
    ASSERT_TRUE(page.index["mlp"].is_object()) << family;
    const auto units = values_of<std::int32_t>(page, "mlp.units");
    const bool is_gated = page.index["layers"][page.index["mlp"]["layer"].get<std::size_t>()]["gated"];
    const auto in = values_of<double>(page, is_gated ? "mlp.gate" : "mlp.up");
    EXPECT_EQ(units.size(), 3U) << family;
    EXPECT_EQ(in.size(), 6U) << family;
  }
  EXPECT_TRUE(look({golden("mixtral"), "--ids", "1,5,9,2"}).index["mlp"].is_null());
}

TEST(LookCommand, ParallelSublayersReadOneInput) {
  for (const auto& [family, n] : {std::pair{"gpt_neox", 1}, std::pair{"cohere", 1}, std::pair{"gpt2", 2}}) {
    const WrittenPage page = look({golden(family), "--ids", "1,5,9,2"});
    const std::size_t expected = page.index["layers"].size() * static_cast<std::size_t>(n);
    EXPECT_EQ(values_of<double>(page, "stream_std.with").size(), expected) << family;
    EXPECT_EQ(values_of<double>(page, "stream_std.without").size(), expected) << family;
  }
}

TEST(LookCommand, CommandsNameTheOptionsOfTheRun) {
  const WrittenPage page = look({golden("gpt2"), "--ids", "1,5", "--compute", "f32", "--kv", "f16"});
  EXPECT_EQ(page.index["run_options"], "--compute f32 --kv f16 ");
}

TEST(LookCommand, SpelledValuesHaveTheResultOfTheirArithmetic) {
  const WrittenPage page = look({kText, "--compute", "f32"});
  EXPECT_EQ(page.index["products"], "f32");
  EXPECT_EQ(look({kText}).index["products"], "bf16");
  std::size_t n = 0;
  for (const Json& cell : page.index["cells"]) {
    if (!cell.contains("result")) continue;
    const double value = cell["value"];
    EXPECT_NEAR(cell["result"].get<double>(), value, 1e-4 * (1 + std::abs(value))) << cell["name"];
    ++n;
  }
  EXPECT_GT(n, 600U);
}

/// A model without a final norm.
TEST(LookCommand, ANormIsSpelledWithItsOwnConfig) {
  const TempFolder folder;
  const Json config = {{"model_type", "vitrine"},
                       {"d_model", 8},
                       {"n_layers", 2},
                       {"n_heads", 2},
                       {"vocab_size", 12},
                       {"max_seq_len", 8},
                       {"d_ff", 8},
                       {"norm_place", "after_residual"},
                       {"norm_weight_offset", 1},
                       {"norm_eps", 0.5},
                       {"embedding_norm", true},
                       {"qk_norm", "head"}};
  write_file(folder / "config.json", config.dump());
  output_of({"init", folder / "config.json", folder / "m", "--seed", "1"});
  Arguments arguments = {folder / "m", "--ids", "1,5,9,2"};
  const std::vector<std::string> names = {"ln_embed.hook_scale[3,0]", "blocks.0.ln1.hook_scale[3,0]",
                                          "blocks.0.ln1.hook_out[3,2]", "blocks.1.ln2.hook_out[3,5]",
                                          "blocks.1.attn.q_norm.hook_out[3,1,2]"};
  for (const std::string& name : names) arguments.insert(arguments.end(), {"--cell", name});
  const WrittenPage page = look(arguments);
  for (const std::string& name : names) {
    const Json& cells = page.index["cells"];
    const auto cell = std::find_if(cells.begin(), cells.end(), [&](const Json& c) { return c["name"] == name; });
    ASSERT_NE(cell, cells.end()) << name;
    EXPECT_NE(cell->at("value"), 0) << name;
    EXPECT_NEAR(cell->at("result").get<double>(), cell->at("value").get<double>(), 1e-4) << name;
  }
}

TEST(LookCommand, TheTrailLeadsFromTheLogitToTheText) {
  const WrittenPage page = look({kText});
  std::map<std::string, Json> cells;
  std::string name;
  double largest = -1e9;
  for (const Json& cell : page.index["cells"]) {
    cells[cell["name"]] = cell;
    if (cell["site"] == "hook_logits" && cell["value"] > largest) {
      largest = cell["value"];
      name = cell["name"];
    }
  }
  std::string last;
  for (int steps = 0; steps < 1000 && cells.contains(name); ++steps) {
    last = name;
    const Json& cell = cells[name];
    name = cell.contains("parents") && !cell["parents"].empty() ? cell["parents"][0].get<std::string>() : "";
  }
  EXPECT_TRUE(last.starts_with("hook_embed")) << "the trail ends at " << last;
}

TEST(LookCommand, AHostileTextCannotEndAScript) {
  const std::string text = "He said </script><script>alert(1)</script> & \"<b>\" \xF0\x9F\x98\x80 \x01 \xE2\x80\xAE x";
  const WrittenPage page = look({text});
  const auto count = [&](const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = page.html.find(part); at != std::string::npos; at = page.html.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<script"), count("</script>"));
  EXPECT_EQ(count("<script>alert"), 0U);
  EXPECT_EQ(page.html.find("http://"), page.html.find("http://www.w3.org/"));
}

TEST(LookCommand, BytesThatAreNoTextAreNamed) {
  const WrittenPage page = look({"\xF0\x9F\xA6\x89"});  // an owl, of several tokens
  std::string bytes;
  for (const Json& id : page.index["ids"]) bytes += page.index["pieces"][std::to_string(id.get<int>())];
  EXPECT_THAT(bytes, testing::HasSubstr("\\x"));
  EXPECT_EQ(bytes.find("\xEF\xBF\xBD"), std::string::npos) << "a replacement character";
}

TEST(LookCommand, ASmallLimitLeavesPartsOutAndSaysSo) {
  const WrittenPage page = look({kText, "--max-size", "1M"});
  EXPECT_LE(page.report["bytes"], 1 << 20);
  std::string left_out;
  for (const Json& part : page.report["left_out"]) {
    left_out += part["what"].get<std::string>() + "; ";
    EXPECT_THAT(part["option"].get<std::string>(), testing::StartsWith("--max-size "));
  }
  EXPECT_THAT(left_out, testing::HasSubstr("every site at all positions"));
  EXPECT_TRUE(look({kText, "--max-size", "64M"}).report["left_out"].empty());
}

TEST(LookCommand, APageIsNeverLargerThanItsLimit) {
  const TempFolder folder;
  std::string ids = "1";
  for (int i = 2; i <= 400; ++i) ids += "," + std::to_string(i);
  for (const auto& [size, bytes] :
       {std::pair{"1200K", 1200 << 10}, std::pair{"2M", 2 << 20}, std::pair{"4M", 4 << 20}}) {
    EXPECT_LE(look({"--ids", ids, "--max-size", size}).report["bytes"], bytes);
  }
  const Outcome refused = run_program({"look", "--ids", ids, "--max-size", "300K", "--out", folder / "p.html"});
  EXPECT_EQ(refused.status, 1);
  std::smatch least;
  ASSERT_TRUE(std::regex_search(refused.err, least, std::regex("expected at least (\\d+)K"))) << refused.err;
  EXPECT_LE(look({"--ids", ids, "--max-size", least[1].str() + "K"}).report["bytes"], std::stoll(least[1]) << 10);
  EXPECT_FALSE(fs::exists(folder / "p.html"));
}

/// The values at a site in a trace.
std::vector<float> traced(Arguments arguments, const std::string& site) {
  const TempFolder folder;
  const std::string path = folder / "trace.safetensors";
  arguments.insert(arguments.begin(), "trace");
  arguments.insert(arguments.end(), {"--sites", site, "--out", path});
  EXPECT_EQ(run_program(arguments).status, 0);
  const auto file = SafetensorsFile::open(path);
  const std::span<const std::byte> bytes = file.tensors().at(site).bytes;
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(LookCommand, AChangedRunIsThatOfTraceWithTheSameChange) {
  const std::string change = "blocks.2.attn.hook_z[:,1]=0";
  const WrittenPage page = look({kText, "--set", change, "--max-size", "64M"});
  EXPECT_EQ(values_of<float>(page, "after:blocks.4.hook_resid_post"),
            traced({kText, "--set", change}, "blocks.4.hook_resid_post"));
  EXPECT_EQ(values_of<float>(page, "blocks.4.hook_resid_post"), traced({kText}, "blocks.4.hook_resid_post"));
  const auto stream = values_of<double>(page, "difference.stream");
  const std::size_t n = page.index["ids"].size(), states = stream.size() / n;
  for (std::size_t t = 0; t < n; ++t) {
    EXPECT_EQ(stream[t], 0) << "the change is in layer 2";
    EXPECT_GT(stream[(states - 1) * n + t], 0);
  }
  // Every name has its counterpart, and what the change does not reach takes no bytes.
  std::map<std::string, Json> arrays;
  for (const Json& array : page.index["values"]) arrays[array["name"]] = array;
  EXPECT_EQ(arrays["after:blocks.1.hook_resid_post"]["block"], arrays["blocks.1.hook_resid_post"]["block"]);
  for (const auto& [name, array] : arrays) {
    const bool is_of_one = name.starts_with("after:") || name.starts_with("difference.") || name.starts_with("cell:");
    EXPECT_TRUE(is_of_one || arrays.contains("after:" + name)) << name;
  }
}

TEST(LookCommand, ACorruptedTextHasItsOwnValues) {
  const std::string corrupted = "Once upon a time there was a little boy";
  const WrittenPage page = look({kText, "--corrupted", corrupted});
  const Json predicted = json_of({"predict", corrupted})["tokens"];
  const auto ids = values_of<std::int32_t>(page, "after:top.id");
  ASSERT_EQ(ids.size(), predicted.size() * 10);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], predicted[i / 10]["top"][i % 10]["id"]);
  const Json states = json_of({"lens", corrupted, "--sublayers", "--top", "3"})["lens"];
  const auto kl = values_of<double>(page, "after:lens.kl");
  for (std::size_t i = 0; i < kl.size(); ++i) EXPECT_EQ(kl[i], states[i / 10][i % 10]["kl"]) << i;
}

TEST(LookCommand, ChosenCellsAreSpelled) {
  const std::string name = "blocks.3.mlp.hook_post[2,5]";
  const WrittenPage page = look({kText, "--cell", name, "--max-size", "1M"});
  const Json& cells = page.index["cells"];
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const Json& cell) { return cell["name"] == name; });
  ASSERT_NE(found, cells.end());
  const std::vector<float> all = traced({kText}, "blocks.3.mlp.hook_post");
  EXPECT_EQ((*found)["value"].get<float>(), all[2 * all.size() / 10 + 5]);
}

TEST(LookCommand, AnAnalogyIsThatOfEmbed) {
  const WrittenPage page = look({kText, "--analogy", "girl - she + he"});
  const Json nearest =
      json_of({"embed", VITRINE_SOURCE_DIR "/models/default", " girl", "-", " she", "+", " he"})["nearest"];
  const auto ids = values_of<std::int32_t>(page, "analogy.id");
  const auto cosines = values_of<double>(page, "analogy.cosine");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], nearest[i]["id"]);
    EXPECT_EQ(cosines[i], nearest[i]["cosine"]);
  }
}

TEST(LookCommand, OpsHaveTimes) {
  const WrittenPage page = look({kText});
  const auto seconds = values_of<double>(page, "time.seconds"), flops = values_of<double>(page, "account.flops");
  ASSERT_EQ(seconds.size(), flops.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    EXPECT_GE(seconds[i], 0);
    EXPECT_TRUE(flops[i] == 0 || seconds[i] > 0) << i;
  }
}

TEST(LookCommand, TheFeaturesAreThoseOfFeatures) {
  const std::string data = outside_data("features");
  if (data.empty()) GTEST_SKIP() << "VITRINE_DATA has no features";
  const Arguments text = {data + "/gpt2",
                          "--ids",
                          "5,6,7,8,9",
                          "--sae",
                          data + "/saelens-gated",
                          "--sae",
                          "t=" + data + "/saelens-transcoder",
                          "--sae",
                          data + "/saelens-hook_z"};
  const WrittenPage page = look(text);
  Arguments reading = text;
  reading.insert(reading.begin(), "features");
  const Json saes = json_of(reading)["saes"];
  ASSERT_EQ(page.index["saes"].size(), 3U);
  EXPECT_EQ(page.index["saes"][1]["name"], "t");
  EXPECT_EQ(page.index["saes"][1]["site"], "blocks.1.hook_mlp_out");
  for (std::size_t s = 0; s < 3; ++s) {
    const std::string name = page.index["saes"][s]["values"];
    const auto index = values_of<std::int32_t>(page, name + ".index"),
               ids = values_of<std::int32_t>(page, name + ".logit.id");
    const auto value = values_of<float>(page, name + ".value"), weight = values_of<float>(page, name + ".logit.weight");
    ASSERT_EQ(index.size(), 25U);
    ASSERT_EQ(weight.size(), 125U);
    for (std::size_t i = 0; i < index.size(); ++i) {
      const Json& token = saes[s]["tokens"][i / 5];
      const bool is_active = i % 5 < token.size();
      EXPECT_EQ(index[i], is_active ? token[i % 5]["index"].get<std::int32_t>() : -1);
      if (!is_active) continue;
      EXPECT_EQ(value[i], token[i % 5]["value"].get<float>());
      EXPECT_EQ(ids[5 * i] >= 0, s != 2) << "heads are no stream, which has logits";
      for (std::size_t j = 1; j < 5 && s != 2; ++j) EXPECT_GE(weight[5 * i + j - 1], weight[5 * i + j]);
    }
  }
  const auto top = values_of<double>(page, "top.prob");
  EXPECT_EQ(top, values_of<double>(look({data + "/gpt2", "--ids", "5,6,7,8,9"}), "top.prob"));
}

TEST(LookCommand, AnAdapterIsPartOfTheModel) {
  for (const char* family : {"gemma2", "gpt2", "llama"}) {
    const std::string model = outside_data(std::string("tuning/lora/") + family);
    if (model.empty()) GTEST_SKIP() << "VITRINE_DATA has no tuning/lora";
    const Arguments adapted = {model, "--ids", "1,5,9,2,7,3", "--adapter", model + "/adapter"};
    const WrittenPage page = look(adapted);
    Arguments predict = adapted;
    predict.insert(predict.begin(), "predict");
    const Json predicted = json_of(predict)["tokens"];
    const auto probs = values_of<double>(page, "top.prob");
    ASSERT_EQ(probs.size(), predicted.size() * 10);
    for (std::size_t i = 0; i < probs.size(); ++i) EXPECT_EQ(probs[i], predicted[i / 10]["top"][i % 10]["prob"]);
    EXPECT_TRUE(page.index["cells"].empty());
    const TempFolder folder;
    Arguments spelled = adapted;
    spelled.insert(spelled.begin(), "look");
    spelled.insert(spelled.end(), {"--cell", "hook_embed[0,0]", "--out", folder / "none.html"});
    expect_error(spelled, {"--cell", "adapter"});
    EXPECT_NE(page.index["model"].get<std::string>().find(" with adapter"), std::string::npos);
  }
}

TEST(LookCommand, ErrorsAreOneLineAndLeaveNoFile) {
  const TempFolder folder;
  const std::string path = folder / "none.html";
  expect_error({"look", kText, "--position", "10", "--out", path}, {"--position", "-10 to 9", "10"});
  expect_error({"look", kText, "--max-size", "much", "--out", path}, {"--max-size", "16M", "much"});
  expect_error({"look", kText, "--words", "Onceupon", "--out", path}, {"one token"});
  expect_error({"look", kText, "--corrupted", "Once upon", "--out", path}, {"--corrupted", "10", "3"});
  expect_error({"look", kText, "--cell", "hook_embed[0,99999]", "--out", path}, {"--cell", "[10, "});
  expect_error({"look", kText, "--cell", "hook_embde[0,0]", "--out", path}, {"--cell", "hook_embed"});
  expect_error({"look", kText, "--set", "hook_embed[99]=0", "--out", path}, {"--set", "out of range"});
  expect_error({"look", kText, "--set", "hook_embde=0", "--out", path}, {"--set", "hook_embed"});
  expect_error({"look", kText, "--run", folder / "none", "--out", path}, {"--run", "checkpoints"});
  expect_usage_error({"look", kText}, {"--out"});
  expect_usage_error({"look", kText, "--set", "hook_embed=0", "--corrupted", kText, "--out", path}, {"--set"});
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace vitrine::test
