#include "cli/families_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "checkpoint/gguf/architecture.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/wrapper.h"
#include "checkpoint/presets.h"
#include "cli/table.h"
#include "model/describe.h"

namespace vitrine::cli {
namespace {

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

/// The names, each in code and once.
std::string list(const std::set<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + code(name);
  return text;
}

std::string families_table() {
  std::map<std::string_view, std::set<std::string_view>> classes, architectures;
  for (const Family& family : all_families()) classes[family.model_type].insert(family.architecture);
  for (const GgufArchitecture& architecture : all_gguf_architectures()) {
    architectures[architecture.family].insert(architecture.name);
    for (const std::string_view other : architecture.is_also) architectures[other].insert(architecture.name);
  }
  Table table({{"model_type"}, {"class"}, {"GGUF"}});
  for (const auto& [type, names] : classes) table.add({code(type), list(names), list(architectures[type])});
  return table.markdown();
}

/// The published models that have a name, with what each has and `kPlain` has not, and the other way round.
std::string presets_table() {
  constexpr const char* kPlain = "llama-2-7b";
  const auto config_of = [](const std::string& name) {
    const Json json = preset_or_config(name);
    return std::pair(family_of(json, name), read_model_config(family_of(json, name), json, name));
  };
  const std::vector<std::string> plain = mechanisms_of(config_of(kPlain).second);
  Table table({{"preset"}, {"model_type"}, {"parameters", Table::Align::right}, {"beside Llama's"}, {"without"}});
  for (const Preset& preset : all_presets()) {
    const auto [family, config] = config_of(preset.name);
    const std::vector<std::string> own = mechanisms_of(config);
    const auto difference = [](const auto& all, const auto& others) {
      std::string text;
      for (const std::string& name : all) {
        const bool is_in_both = std::find(others.begin(), others.end(), name) != others.end();
        if (!is_in_both) text += (text.empty() ? "" : ", ") + name;
      }
      return text;
    };
    table.add({code(preset.name), code(family.model_type), grouped(preset.n_params), difference(own, plain),
               difference(plain, own)});
  }
  return table.markdown();
}

/// The family that reads a model_type in `text_config`.
std::string_view family_of_text(std::string_view model_type) {
  for (const TextType& type : text_types()) {
    if (type.model_type == model_type) return type.family;
  }
  return model_type;
}

bool is_family(std::string_view model_type) {
  const auto families = all_families();
  return std::any_of(families.begin(), families.end(),
                     [&](const Family& family) { return family.model_type == model_type; });
}

std::string wrappers_table() {
  Table table({{"model_type"}, {"class"}, {"text half"}, {"not read"}});
  for (const Wrapper& wrapper : all_wrappers()) {
    const std::string_view family = family_of_text(wrapper.text_type);
    if (!wrapper.any_text && !is_family(family)) continue;
    table.add({code(wrapper.model_type), code(wrapper.architecture),
               (is_family(family) ? code(family) + (wrapper.any_text ? ", or any other decoder" : "") : "any decoder"),
               list({wrapper.unread.begin(), wrapper.unread.end()})});
  }
  return table.markdown();
}

std::string unsupported_table() {
  std::vector<UnsupportedType> types(unsupported_types().begin(), unsupported_types().end());
  std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) { return a.model_type < b.model_type; });
  Table table({{"model_type"}, {"what vitrine lacks"}, {"nearest"}});
  for (const UnsupportedType& type : types) {
    table.add({code(type.model_type), std::string(type.mechanism), code(type.nearest)});
  }
  return table.markdown();
}

constexpr std::string_view kAboutFamilies = R"(
vitrine reads folders in the format of Hugging Face whose `config.json` has one of these values of `model_type`, and GGUF
files of the architectures in the last column; a family without one is refused by name when a GGUF file is to be written.
A key of the config that may change what the model computes, and is not known, is an error that names it
(`--allow-config-key`); so is a tensor that the model does not have (`--allow-tensor`).

)";

constexpr std::string_view kAboutPresets = R"(
## Published models

`vitrine info NAME` and `vitrine init NAME` know these by name. The parameters are those of the text half. The last
columns say how a model differs from Llama 2, in the names that `info` gives the fields of a config;
[config.md](config.md) has a sentence about each, [mechanisms.md](mechanisms.md) the formula, and why it exists.

)";

constexpr std::string_view kAboutWrappers = R"(
## Text halves of other models

A model that reads images or sounds has the config of a text model in its own (`text_config`). vitrine runs this text
half, with the bits of the text model alone:

```
vitrine generate gemma-3-4b-it/ "The capital of France is"
vitrine info gemma-3-4b-it/
```

- **The config.** The family of `text_config.model_type` reads `text_config`; what it lacks has the default of
  transformers. `tie_word_embeddings` and the special ids of the wrapper overrule those of `text_config`. Qwen2-VL's
  published configs have no `text_config`: there the keys of the text half are next to those of the wrapper. RoPE with
  positions in three parts (`mrope_section`) is plain RoPE for text, where the parts are equal.
- **Tensors.** The names of the text half may begin with `language_model.model.`, `model.language_model.` or `model.`.
  Tensors of the other parts are never read; `info` says how many they are and how large. Any other tensor is an error.
- **Placeholders.** A token in whose place the model would read an image, a video or a sound is refused, wherever a text
  comes from: `image token 262144: this model's vision tower is not read`. For Gemma 3, so is the token with which its
  template begins an image.
- **What is written.** `train`, `lora merge` and `quantize` write the text half, as a model of its own: the folder of a
  `gemma3` becomes one of `gemma3_text`. Files that configure the processor of images are left out. `grad` writes the
  names of the file. An adapter has the names that transformers gives the modules of its base
  (`model.language_model.layers…`); it can be applied to the text half alone, too.

)";

constexpr std::string_view kAboutFurther = R"(
## Layers that predict further tokens

Some files have layers that predict the token after the next one (multi-token prediction, MTP): `mtp.*`, or the
`num_nextn_predict_layers` layers after the last one. They have no part in the logits of the next token. vitrine leaves
them out, and `info` says so.

## Not supported

These types are refused before any weight is read, so `vitrine info config.json` answers before a download:
`model_type deepseek_v32: not supported: sparse attention by an indexer; nearest: deepseek_v3`. The nearest family is the
one that differs least; it does not read such a model.

)";

}  // namespace

std::string families_page(const std::string& made) {
  std::string page = "# Families\n\n" + made;
  page += kAboutFamilies;
  page += families_table();
  page += kAboutPresets;
  page += presets_table();
  page += kAboutWrappers;
  page += wrappers_table();
  page += kAboutFurther;
  page += unsupported_table();
  return page;
}

}  // namespace vitrine::cli
