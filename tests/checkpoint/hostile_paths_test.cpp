// Paths that do not exist or are not checkpoints, shards that do not fit together, weights that are NaN.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "checkpoint/hostile_folder.h"
#include "kernels/kernels.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

TEST(HostilePath, ThatIsNotACheckpoint) {
  const TempFolder folder;
  EXPECT_THROW(load_checkpoint(folder / "missing"), BadInput);
  expect_all_in(load_refusal(folder / "missing"), {folder / "missing", "no such file"});
  expect_all_in(load_refusal(""), {"expected a path"});
  expect_all_in(load_refusal(folder.path()), {folder.path(), "config.json"});
  expect_all_in(load_refusal("/dev/zero"), {"/dev/zero", "regular file"});
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  expect_all_in(load_refusal(folder / "fifo"), {"fifo", "regular file"});
  fs::create_symlink("loop", folder / "loop");
  expect_all_in(load_refusal(folder / "loop"), {"loop", "symbolic link"});
  expect_all_in(load_refusal(folder / std::string(300, 'x')), {"xxx", "too long"});
  for (const char* text : {"", "x", "GGUF", "24ka", "hello, this is a text of more than 28 bytes\n"}) {
    write_file(folder / "f", text);
    expect_all_in(load_refusal(folder / "f"), {folder / "f"});
  }
  const HostileFolder good("llama_mha");
  for (const char* name : {"config.json", "model.safetensors"}) {
    expect_all_in(load_refusal(good / name), {good / name, "expected the folder"});
  }
}

/// Each file of a folder in turn is replaced by something that is not a regular file.
TEST(HostilePath, FilesOfAFolderThatAreNotFiles) {
  for (const std::string golden : {"llama_mha", "llama_gqa_bf16_sharded"}) {
    const HostileFolder folder(golden);
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
    for (const std::string& name : names) {
      const std::string good = folder.read(name), path = folder / name;
      const auto expect_refused = [&](std::string_view what) {
        const std::string message = load_refusal(folder.path());
        expect_all_in(message, {what == "nothing" ? folder.path() : path});
        if (message.empty()) ADD_FAILURE() << golden << ": " << name << " is " << what;
        fs::remove(path);
      };
      fs::remove(path);
      expect_refused("nothing");
      fs::create_directory(path);
      expect_refused("a folder");
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      expect_refused("a FIFO");
      fs::create_symlink(name, path);
      expect_refused("a link to itself");
      fs::create_symlink("/dev/zero", path);
      expect_refused("a device");
      folder.write("", name);
      expect_refused("empty");
      folder.write(good, name);
      EXPECT_EQ(load_refusal(folder.path()), "");
    }
  }
}

TEST(HostilePath, WithoutPermission) {
  const HostileFolder folder("llama_mha");
  fs::permissions(folder.path(), fs::perms::all);
  for (const std::string name : {"config.json", "model.safetensors", ""}) {
    const std::string path = name.empty() ? folder.path() : folder / name;
    fs::permissions(path, fs::perms::none);
    {
      const WithoutRights nobody;
      if (!nobody.works()) GTEST_SKIP() << "this user cannot drop its privileges";
      expect_all_in(load_refusal(folder.path()), {path, "ermission"});
    }
    fs::permissions(path, fs::perms::all);
  }
}

TEST(HostileShards, TheIndexNamesTheFiles) {
  const HostileFolder folder("llama_gqa_bf16_sharded");
  const std::string index = "model.safetensors.index.json", good = folder.read(index);
  const std::string first = "model-00001-of-00003.safetensors", last = "model-00003-of-00003.safetensors";
  const Json map = folder.json(index)["weight_map"];
  const std::string tensor = map.begin().key();
  const auto with_index = [&](const std::function<void(Json&)>& edit) {
    folder.write(good, index);
    folder.edit_json(edit, index);
    return refusal(folder.path());
  };
  const std::string in = "[" + (folder / index) + "]";
  EXPECT_EQ(with_index([](Json&) {}), "");
  expect_all_in(with_index([](Json& j) { j = Json::array(); }), {in, "weight_map"});
  expect_all_in(with_index([](Json& j) { j.erase("weight_map"); }), {in, "weight_map"});
  expect_all_in(with_index([](Json& j) { j["weight_map"] = "x"; }), {in, "weight_map"});
  expect_all_in(with_index([](Json& j) { j["weight_map"] = Json::object(); }), {"index.json"});
  // Which tensors the files hold is what they say themselves.
  const std::string other = map[tensor] == first ? last : first;
  EXPECT_EQ(with_index([&](Json& j) { j["weight_map"][tensor] = other; }), "");
  EXPECT_EQ(with_index([&](Json& j) { j["weight_map"]["nothing"] = first; }), "");
  EXPECT_EQ(with_index([&](Json& j) { j["weight_map"].erase(tensor); }), "");
  const auto without_last = [&](Json& j) {
    for (auto& [name, shard] : j["weight_map"].items()) {
      if (shard == last) shard = first;
    }
  };
  expect_all_in(with_index(without_last), {in, "is missing"});
  for (const Json& shard :
       {Json("../x"), Json("/etc/passwd"), Json("a/b"), Json(1), Json(nullptr), Json("./" + first), Json("x/")}) {
    expect_all_in(with_index([&](Json& j) { j["weight_map"][tensor] = shard; }), {in, tensor});
  }
  for (const char* shard : {"..", ".", "", "missing", "config.json"}) {
    EXPECT_NE(with_index([&](Json& j) { j["weight_map"][tensor] = shard; }), "") << shard;
  }
}

TEST(HostileShards, MissingAndDuplicated) {
  const HostileFolder folder("llama_gqa_bf16_sharded");
  const std::string first = "model-00001-of-00003.safetensors", second = "model-00002-of-00003.safetensors";
  const std::string good = folder.read(second);
  fs::remove(folder / second);
  expect_all_in(refusal(folder.path()), {"[" + (folder / second) + "]"});
  folder.write(folder.read(first), second);
  expect_all_in(refusal(folder.path()), {"is missing"});  // the same tensors twice are no error
  std::string changed = folder.read(first);
  changed.back() = static_cast<char>(changed.back() ^ 1);
  folder.write(changed, second);
  expect_all_in(refusal(folder.path()), {"[" + (folder / second) + "]", "with other values"});
  folder.write(good.substr(0, good.size() - 1), second);
  expect_all_in(refusal(folder.path()), {"[" + (folder / second) + "]", "incomplete"});
}

/// Each parameter in turn holds one NaN at an element that the prompt uses. The error names the first layer that it
/// reaches.
TEST(HostileWeights, ANanIsFoundInTheLayerThatHasIt) {
  for (const std::string golden : {"llama_mha", "gemma2", "gpt2_variant", "gpt2_relu"}) {
    const HostileFolder folder(golden);
    const std::string good = folder.read();
    const Json header = Json::parse(folder.header_text());
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__" || name.ends_with(".attn.bias") || name.ends_with("masked_bias")) continue;
      folder.poke(name, 0, std::string("\x00\x00\xc0\x7f", 4));
      std::string where = "hook_embed";
      const std::size_t layer = name.find(".layers.") != std::string::npos ? name.find(".layers.") + 8
                                : name.find("h.") != std::string::npos     ? name.find("h.") + 2
                                                                           : std::string::npos;
      if (layer != std::string::npos)
        where = "blocks." + name.substr(layer, name.find('.', layer) - layer) + ".hook_resid_post";
      if (name.find("lm_head") != std::string::npos || name.find("norm.weight") == 6 ||
          name.find("ln_f") != std::string::npos)
        where = "unembed.hook_out";
      expect_all_in(refusal(folder.path()), {"[" + where + "]", "NaN"});
      if (testing::Test::HasFailure()) FAIL() << golden << ": " << name;
      folder.write(good);
    }
  }
}

/// Every kernel propagates a NaN.
TEST(HostileWeights, OnEveryInstructionSet) {
  for (const Isa isa : available_isas()) {
    for (const std::string golden : {"gpt2_relu", "gemma2"}) {
      const HostileFolder folder(golden);
      folder.poke(golden == "gemma2" ? "model.layers.0.self_attn.q_proj.weight" : "transformer.h.0.mlp.c_fc.weight", 4,
                  std::string("\x00\x00\xc0\x7f", 4));
      const Checkpoint checkpoint = load_checkpoint(folder.path());
      const std::int32_t ids[] = {1, 2, 3};
      expect_all_in(message_of<BadInput>([&] { logits_of(*checkpoint.model, ids, {.kernels = &kernels_for(isa)}); }),
                    {"[blocks.0.hook_resid_post]"});
    }
  }
}

}  // namespace
}  // namespace vitrine::test
