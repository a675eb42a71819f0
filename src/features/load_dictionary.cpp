#include "features/load_dictionary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "features/format.h"
#include "features/site_names.h"
#include "model/dry_run.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The folder of a dictionary: `path`, or that of a file of its format.
fs::path folder_of(const std::string& path) {
  std::error_code error;
  const fs::path given(path);
  if (fs::is_directory(given, error)) return given;
  if (!fs::exists(given, error)) throw BadInput(path, "no such file or folder");
  const auto bytes = MappedFile::open(path);
  refuse_pickle(path, bytes->bytes());
  const std::string name = given.filename().string();
  for (const DictionaryFormat& format : dictionary_formats()) {
    if (std::ranges::find(format.files, name) != format.files.end()) {
      return given.has_parent_path() ? given.parent_path() : fs::path(".");
    }
  }
  throw BadInput(path, "expected the folder of a dictionary, or a file of one: {}",
                 "sae_weights.safetensors, params.npz");
}

/// Refuses a folder whose weights are a pickle, or says what is missing.
[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".pt" || extension == ".pth" || extension == ".pkl" || extension == ".bin") {
      throw Unsupported(entry.path().string(), "a Python pickle can run code; save it as safetensors");
    }
  }
  std::string known;
  for (const DictionaryFormat& format : dictionary_formats()) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", format.files.back(), format.name);
  }
  throw BadInput(folder.string(), "the folder has no dictionary: expected {}", known);
}

std::vector<ReadDictionary> read_folder(const fs::path& path) {
  const DictionaryFolder folder(path);
  for (const DictionaryFormat& format : dictionary_formats()) {
    if (std::ranges::all_of(format.files, [&](const auto& file) { return folder.has(file); })) {
      return format.read(folder);
    }
  }
  refuse_folder(path);
}

/// The shapes of the values at some sites.
class SiteShapes : public Taps {
 public:
  explicit SiteShapes(std::vector<SiteId> sites) : sites_(std::move(sites)), shapes_(sites_.size()) {}

  bool wants(const SiteId& id) const override { return std::ranges::find(sites_, id) != sites_.end(); }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    const auto at = std::ranges::find(sites_, id) - sites_.begin();
    shapes_[static_cast<std::size_t>(at)] = value.shape;
    return value;
  }
  void visit_steps(Pass&, const SiteId&, const Tensor&) override {}
  /// Nothing if no value was passed: the model has no such site.
  const std::optional<Shape>& shape_of(const SiteId& id) const {
    return shapes_[static_cast<std::size_t>(std::ranges::find(sites_, id) - sites_.begin())];
  }

 private:
  std::vector<SiteId> sites_;
  std::vector<std::optional<Shape>> shapes_;
};

SiteShapes shapes_of(const Model& model, const std::vector<SiteId>& sites, ThreadPool& pool) {
  SiteShapes shapes(sites);
  const bool has_encoder = model.config().encoder.has_value();
  DryPass dry(pool, {{0, 2, 0, nullptr, has_encoder ? 0 : -1}},
              has_encoder ? std::vector<Segment>{{0, 2}} : std::vector<Segment>{});
  dry.pass().taps = &shapes;
  dry.run(model);
  return shapes;
}

/// A site whose value has a row for each token, and is passed at once.
bool can_have_dictionary(const SiteId& id) {
  const SiteInfo& site = info(id.site);
  const std::span<const Dim> dims = site.shape.dims();
  const bool has_columns = std::ranges::none_of(dims.subspan(1), [](Dim d) { return d == dims::T || d == dims::S; });
  return dims.size() > 1 && dims.front() == dims::T && has_columns && !site.on_demand &&
         site.place <= SitePlace::block_output;
}

SiteId bound_site(const ModelConfig& config, const std::string& where, const std::string& name, bool in_file) {
  if (name.empty()) throw BadInput(where, "its files name no site; give it as PATH@SITE");
  const auto id = site_named(config, name, in_file);
  if (!id || !can_have_dictionary(*id)) {
    throw BadInput(where,
                   "no dictionary or probe can be attached to the site {}: expected one of docs/sites.md whose value "
                   "has a row for each token",
                   name);
  }
  return *id;
}

/// Whether all that reads the stream subtracts its mean first, so that the stream needs none.
bool ignores_mean(const ModelConfig& config) {
  const auto is_layer = [](const std::optional<NormConfig>& norm) {
    return norm.has_value() && norm->kind == NormConfig::Kind::layer;
  };
  if (config.encoder || !is_layer(config.final_norm)) return false;
  return std::ranges::all_of(config.blocks, [&](const BlockConfig& block) {
    return std::ranges::all_of(block.sublayers, [&](const Sublayer& sublayer) {
      const SublayerNorms& norms = sublayer.norms;
      return (is_layer(norms.pre) || sublayer.input == Sublayer::Input::previous) && !norms.post && !norms.sum;
    });
  });
}

/// TransformerLens's center_writing_weights changes the values of the stream and of what is added to it.
bool is_written_to_stream(const SiteId& id) {
  constexpr std::array<std::string_view, 7> kStream{"hook_embed",     "hook_pos_embed", "hook_resid_pre",
                                                    "hook_resid_mid", "hook_attn_out",  "hook_resid_post",
                                                    "hook_mlp_out"};
  return std::ranges::find(kStream, info(id.site).name) != kStream.end();
}

/// A dictionary of a centered stream reads this model's stream without its mean. Nothing changes where TransformerLens
/// does not center: at other sites, and with root mean square norms.
void settle_centering(const ModelConfig& config, const std::string& where, Dictionary& d) {
  if (!d.scaling.is_centered) return;
  const bool is_rms = config.final_norm && config.final_norm->kind == NormConfig::Kind::rms;
  d.scaling.is_centered = !is_rms && (is_written_to_stream(d.input) || is_written_to_stream(d.output));
  if (!d.scaling.is_centered) return;
  const auto refuse = [&](std::string_view why) { throw Unsupported(where, "center_writing_weights: {}", why); };
  if (d.is_transcoder()) refuse("it is read for sparse autoencoders, not for transcoders");
  if (!ignores_mean(config)) refuse("expected a model whose stream is read through layer norms");
}

/// Checks that the model has the sites, and that their rows have the widths of the dictionary.
void check_widths(const std::string& where, const Dictionary& d, const SiteShapes& shapes) {
  const auto check = [&](const SiteId& id, std::int64_t width, const char* what) {
    const std::optional<Shape>& shape = shapes.shape_of(id);
    if (!shape) throw BadInput(where, "this model has no site {}", name_of(id));
    if (d.head && shape->rank() != 3)
      throw BadInput(where, "{} has no heads, of which the dictionary reads one", name_of(id));
    if (d.head && *d.head >= (*shape)[1])
      throw BadInput(where, "{} has {} heads, expected head {}", name_of(id), (*shape)[1], *d.head);
    const std::int64_t own = d.head ? (*shape)[2] : shape->count_from(1);
    if (own == width) return;
    throw BadCheckpoint(where, "{}: expected {} = {}, the width of the site, got {}", name_of(id), what, own, width);
  };
  check(d.input, d.d_in(), "d_in");
  check(d.output, d.d_out(), "d_out");
}

}  // namespace

bool is_dictionary_name(std::string_view text) {
  const auto may = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, may);
}

DictionaryText parse_dictionary_text(const std::string& text, const char* option, const char* path) {
  const auto refuse = [&](std::string_view what) {
    throw BadInput(option, "expected [NAME=]{}[@SITE], got \"{}\": {} is empty", path, text, what);
  };
  DictionaryText result{"", text, ""};
  if (!exists(result.path)) {
    const std::size_t equals = text.find('=');
    if (equals != text.npos && is_dictionary_name(std::string_view(text).substr(0, equals))) {
      result.name = text.substr(0, equals);
      result.path = text.substr(equals + 1);
    }
  }
  if (!exists(result.path)) {
    const std::size_t at = result.path.rfind('@');
    if (at != result.path.npos && result.path.find('/', at) == result.path.npos) {
      result.site = result.path.substr(at + 1);
      result.path = result.path.substr(0, at);
      if (result.site.empty()) refuse("SITE");
    }
  }
  if (result.path.empty()) refuse(path);
  return result;
}

std::vector<std::shared_ptr<const Dictionary>> load_dictionaries(const DictionaryText& text, const Model& model,
                                                                 ThreadPool& pool) {
  std::vector<ReadDictionary> all = read_folder(folder_of(text.path));
  if (!text.site.empty() && all.size() > 1) {
    throw BadInput(text.path, "it has {} dictionaries, whose sites its files name: expected no @SITE", all.size());
  }
  const ModelConfig& config = model.config();
  std::vector<SiteId> sites;
  for (ReadDictionary& read : all) {
    Dictionary& d = *read.dictionary;
    d.name = text.name;
    const bool is_transcoder = read.input != read.output;
    if (text.site.empty()) {
      d.output = bound_site(config, text.path, read.output, true);
      d.input = bound_site(config, text.path, read.input, true);
    } else {
      d.output = bound_site(config, text.path, text.site, false);
      d.input = is_transcoder ? bound_site(config, text.path, read.input, true) : d.output;
    }
    if (precedes(d.output, d.input)) {
      throw BadInput(text.path, "{} comes before {}, which the dictionary reads", name_of(d.output), name_of(d.input));
    }
    settle_centering(config, text.path, d);
    sites.push_back(d.input);
    sites.push_back(d.output);
  }
  const SiteShapes shapes = shapes_of(model, sites, pool);
  std::vector<std::shared_ptr<const Dictionary>> result;
  for (ReadDictionary& read : all) {
    check_widths(text.path, *read.dictionary, shapes);
    result.push_back(read.dictionary);
  }
  return result;
}

std::shared_ptr<const Dictionary> read_dictionary(const std::string& path) {
  const std::vector<ReadDictionary> all = read_folder(folder_of(path));
  if (all.size() != 1) throw BadInput(path, "expected one dictionary, got {}", all.size());
  return all.front().dictionary;
}

std::vector<DictionarySiteOf> dictionary_sites(const std::string& where, const std::vector<std::string>& names,
                                               const Model& model, ThreadPool& pool) {
  std::vector<SiteId> ids;
  for (const std::string& name : names) ids.push_back(bound_site(model.config(), where, name, false));
  const SiteShapes shapes = shapes_of(model, ids, pool);
  std::vector<DictionarySiteOf> sites;
  for (const SiteId& id : ids) {
    const std::optional<Shape>& shape = shapes.shape_of(id);
    if (!shape) throw BadInput(where, "this model has no site {}", name_of(id));
    sites.push_back({id, shape->count_from(1)});
  }
  return sites;
}

}  // namespace vitrine
