#include "cli/hub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/adapters/modifier_text.h"
#include "cli/output.h"
#include "generate/preflight.h"
#include "hub/pull.h"

namespace vitrine::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::seconds kLineEvery{30};
constexpr std::chrono::milliseconds kFirstBar{500};

/// Replaces the name in an argument, as in NAME=hf:ORG/REPOSITORY=0.5: the name of an adapter, a scale and layers are
/// no part of it.
void replace_name(std::string& argument, HubWanted wanted, const HubAccess& access, Options& o) {
  if (!is_hub_name(argument) && argument.find("=hf:") == argument.npos) return;
  const std::string name = parse_control_text(argument).path;  // an adapter's text has no layers, and a path neither
  if (!is_hub_name(name)) return;
  RemoteTokenizer files;
  if (wanted == HubWanted::tokenizer) {
    files = remote_tokenizer(parse_hub_name(name), access);
    if (files.folder != nullptr) o.hub_folders.push_back(files.folder);
  } else {
    files.path = local_path(name, wanted, access);
  }
  argument.replace(argument.find(name), name.size(), files.path);
}

}  // namespace

std::string byte_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

PullDisplay::PullDisplay(const std::string& owner)
    : prefix_(owner.empty() ? "" : owner + ": "), on_terminal_(owner.empty() && is_terminal(STDERR_FILENO)) {}

PullDisplay::~PullDisplay() {
  if (visible_) write_stderr("\r\x1B[K");
}

double PullDisplay::speed(const HubProgress& p) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  return static_cast<double>(p.all_done - first_) / std::max(seconds, 1e-3);
}

void PullDisplay::draw(const HubProgress& p) {
  const double part = p.all_total > 0 ? static_cast<double>(p.all_done) / static_cast<double>(p.all_total) : 1;
  const auto full = static_cast<int>(std::min(1.0, part) * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) bar += i < full ? "━" : "─";
  const double rate = speed(p);
  const double left = static_cast<double>(p.all_total - p.all_done) / std::max(rate, 1.0);
  write_stderr(fmt::format("\r{} {} {:3.0f} %  {} of {}, {}/s, {} left\x1B[K", p.text, bar, 100 * part,
                           byte_text(p.all_done), byte_text(p.all_total), byte_text(static_cast<std::int64_t>(rate)),
                           duration_text(left)));
  visible_ = true;
}

void PullDisplay::show(const HubProgress& p) {
  const auto now = Clock::now();
  if (p.event == HubProgress::Event::note) return note(prefix_ + p.text);
  if (first_ < 0) first_ = p.all_done, begun_ = now;
  if (p.event == HubProgress::Event::begin) {
    file_begun_ = shown_ = now;
    if (!on_terminal_) note(fmt::format("{}fetching {} ({})", prefix_, p.text, byte_text(p.total)));
    return;
  }
  if (on_terminal_) {
    if (now - begun_ < kFirstBar) return;  // no speed is known yet
    if (now - shown_ < std::chrono::milliseconds(100) && p.event != HubProgress::Event::end) return;
    shown_ = now;
    return draw(p);
  }
  if (p.event == HubProgress::Event::end) {
    const double seconds = std::chrono::duration<double>(now - file_begun_).count();
    return note(fmt::format("{}fetched {} in {}", prefix_, p.text, duration_text(seconds)));
  }
  if (now - shown_ < kLineEvery) return;
  shown_ = now;
  note(fmt::format("{}fetching {}: {} of {}, {}/s", prefix_, p.text, byte_text(p.done), byte_text(p.total),
                   byte_text(static_cast<std::int64_t>(speed(p)))));
}

HubAccess hub_access(const Options& o, PullDisplay& display, int jobs) {
  HubAccess access;
  access.offline = o.offline;
  access.jobs = jobs;
  access.report = [&display](const HubProgress& progress) { display.show(progress); };
  access.poll = [] {
    if (interrupted()) throw Interrupted();
  };
  access.check = [options = LoadOptions{o.allowed_config_keys, o.allowed_tensors}](const std::string& headers) {
    refuse_obstacle(headers, options);
  };
  return access;
}

void fetch_named(Options& o, const std::string& owner) {
  const CleanStop guard;
  PullDisplay display(owner);
  const HubAccess access = hub_access(o, display);
  const auto replace = [&](std::string& argument, HubWanted wanted) {
    const std::string given = argument;
    replace_name(argument, wanted, access, o);
    if (given != argument) o.hub_names[argument] = given;
  };
  if (o.first_is_model()) replace(o.first, o.first_wanted);
  for (const Options::HubPlace& place : o.hub_places) {
    if (place.one != nullptr) replace(*place.one, place.wanted);
    if (place.several == nullptr) continue;
    for (std::string& argument : *place.several) replace(argument, place.wanted);
  }
  if (interrupted()) throw Interrupted();
}

}  // namespace vitrine::cli
