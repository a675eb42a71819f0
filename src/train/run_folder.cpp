#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/folder_writer.h"
#include "base/text.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/safetensors.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepPrefix = "step-";
constexpr const char* kStateFile = "trainer_state.json";
constexpr const char* kArraysFile = "trainer_state.safetensors";
constexpr const char* kTemporary = ".tmp";  // of FolderWriter
constexpr std::int64_t kHeaderBytesPerArray = 240;

std::string name_of_step(std::int64_t step) { return kStepPrefix + fmt::format("{:06}", step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return {};
  const auto step = number_in<std::int64_t>(std::string_view(name).substr(std::strlen(kStepPrefix)));
  return step && name == name_of_step(*step) ? step : std::nullopt;
}

/// Moments and masters: the arrays that are not part of the model.
std::vector<OptimizerArray> arrays_of(const Trainable& trainable, Optimizer& optimizer) {
  std::vector<OptimizerArray> arrays = optimizer.state(trainable.params());
  const std::vector<OptimizerArray> masters = masters_of(trainable);
  arrays.insert(arrays.end(), masters.begin(), masters.end());
  return arrays;
}

Json to_json(const TrainerState& s) {
  return {{"step", s.step},
          {"optimizer_steps", s.optimizer_steps},
          {"loss", s.loss},
          {"val_loss", s.val_loss ? Json(*s.val_loss) : Json()},
          {"isa", s.isa},
          {"build", s.build},
          {"config", {{"fixed", s.words.fixed}, {"free", s.words.free}}},
          {"unfinished", s.unfinished},
          {"more", s.more}};
}

std::string word_text(const Json& words, const std::string& key) {
  const auto it = words.find(key);
  return it == words.end() ? "nothing" : it->dump();
}

/// What a resumed run must not change.
Json fixed_words(const TrainConfig& c, const TrainingData& corpus) {
  const StepOptions& t = c.train;
  const bool is_adamw = c.optimizer.kind == OptimizerConfig::Kind::adamw;
  Json words = {{"batch", t.batch},
                {"micro_batches", t.micro_batches},
                {"seq_len", t.seq_len},
                {"seed", t.seed},
                {"dtype", std::string(name_of(t.dtype))},
                {"mask_documents", c.data.mask_documents},
                {"optimizer", is_adamw ? "adamw" : "sgd"},
                {"training_tokens", corpus.training_tokens()},
                {"tokenizer_fingerprint", fmt::format("{:016x}", corpus.info().fingerprint)}};
  if (c.lora) {
    const NewAdapter& a = c.lora->adapter;
    words["lora"] = {{"rank", a.rank},
                     {"alpha", a.alpha},
                     {"rslora", a.rslora},
                     {"targets", a.targets},
                     {"from", c.lora->from},
                     {"layers", a.layers ? Json(*a.layers) : Json()},
                     {"base", c.model.checkpoint}};
  }
  if (c.data.is_talk()) {
    words["now"] = c.data.talk.now;
    words["order"] = c.data.talk.is_shuffled ? "shuffled" : "file";
    words["samples"] = fmt::format("{:016x}", corpus.fingerprint());
  }
  if (!c.data.pairs.empty()) {
    const PreferenceOptions& p = c.preference;
    words["preference"] = {{"objective", static_cast<int>(p.objective)},
                           {"beta", p.beta},
                           {"label_smoothing", p.label_smoothing},
                           {"gamma", p.gamma},
                           {"reference", p.reference == PreferenceOptions::Reference::base ? "base" : "start"}};
  }
  if (c.text) {
    words["order"] = c.data.talk.is_shuffled ? "shuffled" : "file";
    words["samples"] = fmt::format("{:016x}", corpus.fingerprint());
    words["text"] = {{"task", static_cast<int>(c.text->task)},
                     {"loss", c.text->loss ? Json(static_cast<int>(*c.text->loss)) : Json()},
                     {"scale", c.text->scale ? Json(*c.text->scale) : Json()},
                     {"symmetric", c.text->is_symmetric},
                     {"matryoshka_dims", c.text->dimensions},
                     {"matryoshka_weights", c.text->dimension_weights},
                     {"document_regularizer_weight", c.text->flops.documents},
                     {"query_regularizer_weight", c.text->flops.queries}};
    if (c.lora && !c.model.labels.empty()) words["labels"] = c.model.labels;
  }
  if (t.objective == StepOptions::Objective::masked) words["mask_fraction"] = t.mask_fraction;
  if (corpus.source_info() != nullptr) {
    words["source_fingerprint"] = fmt::format("{:016x}", corpus.source_info()->fingerprint);
  }
  return words;
}

/// What changes the bits of a resumed run, compared with one that was never stopped.
Json free_words(const TrainConfig& c) {
  const StepOptions& t = c.train;
  Json words = rate_words(c);
  words.update({{"dropout", t.dropout},
                {"label_smoothing", t.label_smoothing},
                {"z_loss", t.z_loss},
                {"balance_loss", t.balance_loss},
                {"balance", t.balance == StepOptions::Balance::sequence ? "sequence" : "hugging_face"},
                {"router_z_loss", t.router_z_loss},
                {"writes", c.log.writes}});
  if (t.micro_batches > 1) words["gradient_order"] = "tree";  // older runs added one after another
  if (t.router_bias_rate > 0) words["router_bias_rate"] = t.router_bias_rate;
  if (c.lora) words["lora.dropout"] = c.lora->dropout;
  return words;
}

}  // namespace

std::vector<OptimizerArray> masters_of(const Trainable& trainable) {
  std::vector<OptimizerArray> arrays;
  if (trainable.dtype() == DType::f32) return arrays;
  const auto add = [&](const TrainParam& param) {
    const auto n = static_cast<std::size_t>(param.count());
    arrays.push_back({"master." + param.name, &param.shape, {param.value, n}});
  };
  for (const TrainParam& param : trainable.params()) add(param);
  for (const TrainParam& buffer : trainable.buffers()) {
    if (is_correction(buffer.name)) add(buffer);
  }
  return arrays;
}

Json rate_words(const TrainConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  const ScheduleConfig& s = c.schedule;
  return {{"steps", c.train.steps},
          {"beta1", o.beta1},
          {"beta2", o.beta2},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"momentum", o.momentum},
          {"max_norm", o.max_norm ? Json(*o.max_norm) : Json()},
          {"schedule", static_cast<int>(s.kind)},
          {"lr", s.peak},
          {"warmup", s.warmup},
          {"decay_steps", s.decay_steps},
          {"end_fraction", s.end_fraction}};
}

RunWords words_of(const TrainConfig& c, const TrainingData& corpus) { return {fixed_words(c, corpus), free_words(c)}; }

void check_words(const RunWords& before, const RunWords& now, const std::string& folder,
                 const std::function<void(const std::string&)>& tell) {
  for (const auto& [key, value] : now.fixed.items()) {
    const std::string was = word_text(before.fixed, key), is = value.dump();
    if (was == is) continue;
    throw BadInput(folder, "{} was {} when the run started and is now {}: the run cannot be resumed", key, was, is);
  }
  for (const auto& [key, value] : now.free.items()) {
    const std::string was = word_text(before.free, key), is = value.dump();
    if (was == is) continue;
    tell(fmt::format("{} changes from {} to {}: the bits will not be those of a run that was never stopped", key, was,
                     is));
  }
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  if (!fs::exists(folder + "/checkpoints", error)) return steps;
  for (fs::directory_iterator it(folder + "/checkpoints", error), end; !error && it != end; it.increment(error)) {
    if (const auto step = step_of(it->path().filename().string())) steps.push_back(*step);
  }
  if (error) throw BadInput(folder, "cannot read the folder of the run: {}", error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return folder + "/checkpoints/" + name_of_step(step);
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (!fs::exists(path_, error)) return;
  if (!fs::is_directory(path_, error)) throw BadInput(path_, "expected a folder for the run, got a file");
  lock();
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

/// The system releases the lock however the process ends. On a file system without locks the folder is not locked.
void RunFolder::lock() {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw BadInput(path_, "cannot open the folder of the run: {}", std::generic_category().message(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw BadInput(path_, "another process is training into this folder");
  }
}

void RunFolder::prepare() {
  std::error_code error;
  for (const char* const name : {"last", "best"}) {
    const fs::file_status status = fs::symlink_status(file(name), error);
    if (fs::exists(status) && !fs::is_symlink(status)) {
      throw BadInput(file(name), "expected a link to a checkpoint, or nothing; choose another folder for the run");
    }
  }
  fs::create_directories(path_ + "/checkpoints", error);
  if (error) throw BadInput(path_, "cannot create the folder of the run: {}", error.message());
  if (lock_ < 0) lock();
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(path_ + "/checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kTemporary) && step_of(name.substr(0, name.size() - std::strlen(kTemporary)))) {
      left.push_back(entry.path());
    }
  }
  for (const fs::path& path : left) fs::remove_all(path, error);  // a leftover only takes disk space
}

std::optional<std::int64_t> RunFolder::step_to_resume(bool resumes) const {
  const std::vector<std::int64_t> all = steps();
  if (!resumes && !all.empty()) {
    throw BadInput(path_, "it already holds a run of {} steps: continue it with --resume, or choose another folder",
                   all.back());
  }
  if (resumes && all.empty() && !fs::exists(file("metrics.jsonl"))) {
    throw BadInput(path_, "there is no run to continue; leave out --resume to start one");
  }
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void RunFolder::save(const Trainable& trainable, const ModelFiles& files, Optimizer& optimizer,
                     const TrainerState& state, std::int64_t keep_last, ThreadPool& pool, const Hold& hold) {
  save(
      state, arrays_of(trainable, optimizer), keep_last,
      [&](const std::string& folder) { save_model(trainable, files, folder, pool, hold); }, hold);
}

void RunFolder::save(const TrainerState& state, std::span<const OptimizerArray> arrays, std::int64_t keep_last,
                     const std::function<void(const std::string&)>& write, const Hold& hold) {
  {
    FolderWriter folder(checkpoint(state.step));
    write(folder.file(""));
    SafetensorsWriter writer(folder.file(kArraysFile),
                             256 + static_cast<std::int64_t>(arrays.size()) * kHeaderBytesPerArray);
    for (const OptimizerArray& array : arrays) {
      if (hold) hold(array.values.data());
      writer.add(array.name, {array.values.data(), *array.shape});
    }
    writer.commit();
    write_file(folder.file(kStateFile), to_json(state).dump(2) + "\n");
    folder.commit();
  }
  link("last", state.step);
  const std::optional<std::int64_t> best_step = best();
  if (best_step) link("best", *best_step);
  std::vector<std::int64_t> all = steps();
  for (std::int64_t i = 0; i + std::max<std::int64_t>(keep_last, 1) < static_cast<std::int64_t>(all.size()); ++i) {
    const std::int64_t step = all[static_cast<std::size_t>(i)];
    if (step == best_step || step == state.step) continue;
    std::error_code error;
    fs::remove_all(checkpoint(step), error);  // a leftover only takes disk space
  }
}

/// The checkpoint with the lowest validation loss, if any has one. Invalid checkpoints are ignored.
std::optional<std::int64_t> RunFolder::best() const {
  std::optional<std::int64_t> best;
  double least = 0;
  for (const std::int64_t step : steps()) {
    try {
      const std::optional<double> loss = read_state(step).val_loss;
      if (!loss || (best && *loss >= least)) continue;
      best = step;
      least = *loss;
    } catch (const Error&) {
      continue;
    }
  }
  return best;
}

/// Replaces the link atomically.
void RunFolder::link(const std::string& name, std::int64_t step) const {
  const std::string temporary = file(name + ".tmp");
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_directory_symlink("checkpoints/" + name_of_step(step), temporary, error);
  if (!error) fs::rename(temporary, file(name), error);
  if (error) throw BadInput(file(name), "cannot create the link: {}", error.message());
}

void RunFolder::write_sample(std::int64_t step, const std::string& text) const {
  std::error_code error;
  fs::create_directories(file("samples"), error);  // the writer reports errors
  write_file(file("samples/" + name_of_step(step) + ".txt"), text);
}

TrainerState RunFolder::read_state(std::int64_t step) const {
  const std::string path = checkpoint(step) + "/" + kStateFile;
  const Json json = read_json_file(path);
  try {
    TrainerState s;
    s.step = json.at("step").get<std::int64_t>();
    s.optimizer_steps = json.at("optimizer_steps").get<std::int64_t>();
    s.loss = json.at("loss").is_null() ? 0 : json.at("loss").get<double>();
    if (!json.at("val_loss").is_null()) s.val_loss = json.at("val_loss").get<double>();
    s.isa = json.at("isa").get<std::string>();
    s.build = json.at("build").get<std::string>();
    s.words = {json.at("config").at("fixed"), json.at("config").at("free")};
    s.unfinished = json.at("unfinished");
    s.more = json.value("more", Json());
    if (s.step != step || s.optimizer_steps < 0 || s.optimizer_steps > s.step) {
      throw BadCheckpoint(path, "the steps contradict the folder's name: {} and {}", s.step, s.optimizer_steps);
    }
    return s;
  } catch (const Json::exception& e) {
    throw BadCheckpoint(path, "expected the state of a training run: {}", e.what());
  }
}

ReadArray RunFolder::open_arrays(std::int64_t step, const Trainable& trainable, Optimizer& optimizer) const {
  return open_arrays(step, arrays_of(trainable, optimizer));
}

ReadArray RunFolder::open_arrays(std::int64_t step, std::span<const OptimizerArray> arrays) const {
  const std::string path = checkpoint(step) + "/" + kArraysFile;
  const auto file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  std::set<std::string> names;
  for (const OptimizerArray& array : arrays) {
    const auto it = file->tensors().find(array.name);
    if (it == file->tensors().end()) throw BadCheckpoint(path, "tensor {} is missing", array.name);
    const StoredTensor& stored = it->second;
    if (stored.type != DType::f32 || stored.bytes.size() != array.values.size_bytes()) {
      throw BadCheckpoint(path, "tensor {} must be F32 of shape {}", array.name, to_string(*array.shape));
    }
    names.insert(array.name);
  }
  for (const auto& [name, stored] : file->tensors()) {
    if (!names.contains(name)) throw BadCheckpoint(path, "tensor {} is not part of this run", name);
  }
  return [file](const OptimizerArray& array) {
    const std::span<const std::byte> bytes = file->tensors().at(array.name).bytes;
    std::memcpy(array.values.data(), bytes.data(), bytes.size());
  };
}

std::vector<Metric> metrics_of(const Json& unfinished, const std::string& where) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : unfinished.items()) {
    if (!value.is_number() && !value.is_null()) throw BadCheckpoint(where, "expected numbers as metrics of a step");
    metrics.push_back({name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
  }
  return metrics;
}

}  // namespace vitrine
