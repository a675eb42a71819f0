// Runs the program `vitrine` as a user does, with arguments, standard files and signals. Also makes the files that
// these tests need.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"
#include "tokenizer/vocabulary.h"

namespace vitrine::test {

using Arguments = std::vector<std::string>;

struct Launch {
  std::string input{};                     ///< Sent to stdin.
  bool hold_input = false;                 ///< Keeps stdin open after the input.
  bool no_reader = false;                  ///< stdout is a pipe whose other end is closed from the start.
  std::string input_path{};                ///< A file that replaces the pipe of stdin.
  std::string output_path{};               ///< A file that replaces the pipe of stdout.
  std::set<int> closed{};                  ///< Standard files that are closed.
  std::vector<std::string> environment{};  ///< NAME=value
  std::uint64_t largest_file = 0;          ///< The limit of `ulimit -f` in bytes; 0: none.
  std::string program = VITRINE_PROGRAM;
};

struct Outcome {
  int status = -1;  ///< Exit status; -1 if a signal ended the program.
  int signal = 0;
  std::string out, err;
};

/// A running program. If it does not finish within a minute, it is killed and the test fails.
class Program {
 public:
  explicit Program(Arguments arguments, Launch launch = {}) : rest_(launch.input), hold_input_(launch.hold_input) {
    arguments.insert(arguments.begin(), launch.program);
    std::vector<char*> argv, envp;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    for (std::string& e : launch.environment) envp.push_back(e.data());
    for (char** e = environ; *e != nullptr; ++e) envp.push_back(*e);
    envp.push_back(nullptr);
    int ends[3][2];
    for (auto& pair : ends) EXPECT_EQ(::pipe2(pair, O_CLOEXEC), 0);
    if (launch.no_reader) ::close(std::exchange(ends[1][0], -1));
    pid_ = ::fork();
    if (pid_ == 0) {
      for (int fd = 0; fd <= 2; ++fd) ::dup2(ends[fd][fd == 0 ? 0 : 1], fd);
      become_file(launch.input_path, O_RDONLY, 0);
      become_file(launch.output_path, O_WRONLY, 1);
      for (const int fd : launch.closed) ::close(fd);
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
      const rlimit limit{launch.largest_file, launch.largest_file};
      if (launch.largest_file > 0) ::setrlimit(RLIMIT_FSIZE, &limit);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(99);
    }
    for (int fd = 0; fd <= 2; ++fd) {
      ::close(ends[fd][fd == 0 ? 0 : 1]);
      fds_[fd] = ends[fd][fd == 0 ? 1 : 0];
    }
    ::fcntl(fds_[0], F_SETFL, O_NONBLOCK);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) finish();
  }

  void send(int number) const { ::kill(pid_, number); }
  /// Closes the test's end of the pipe of stdout.
  void close_output() { close_end(1); }

  /// Writes input and reads output until `done` or until both pipes are closed.
  void exchange(const std::function<bool()>& done) {
    while (!done()) {
      if (rest_.empty() && !hold_input_) close_end(0);
      pollfd polled[3] = {{rest_.empty() ? -1 : fds_[0], POLLOUT, 0}, {fds_[1], POLLIN, 0}, {fds_[2], POLLIN, 0}};
      if (fds_[1] < 0 && fds_[2] < 0) return;
      ::poll(polled, 3, 20);
      if (std::chrono::steady_clock::now() > deadline_) {
        ADD_FAILURE() << "the program takes too long";
        ::kill(pid_, SIGKILL);
        return;
      }
      if (polled[0].revents != 0) write_some();
      if (polled[1].revents != 0) read_some(1, outcome_.out);
      if (polled[2].revents != 0) read_some(2, outcome_.err);
    }
  }
  /// What it has printed so far, as exchange() has read it.
  const std::string& output() const { return outcome_.out; }
  void wait_for_output(std::size_t bytes) {
    exchange([&] { return outcome_.out.size() >= bytes; });
    EXPECT_GE(outcome_.out.size(), bytes) << outcome_.err;
  }
  /// Waits until the program has read all input and waits for more.
  void wait_until_it_reads() {
    exchange([&] { return rest_.empty() && queued(fds_[0]) == 0 && state() == "S"; });
  }
  /// Waits until `done` without reading what the program prints.
  void wait_until(const std::function<bool()>& done) {
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline_) << "the program takes too long";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Waits until the program blocks on a full stdout pipe.
  void wait_until_its_output_is_stuck() {
    wait_until([&] { return queued(fds_[1]) > 2000 && state() == "S"; });
  }
  /// Waits until the program has installed its handler of the signal.
  void wait_until_it_catches(int number) {
    wait_until([&] {
      const std::string status = of_system("status"), mask = "SigCgt:\t";
      return std::stoull(status.substr(status.find(mask) + mask.size()), nullptr, 16) >> (number - 1) & 1;
    });
  }
  /// Waits until the program exits, with stdin open and its output unread.
  void wait_until_it_ends() {
    wait_until([&] { return state() == "Z"; });
  }

  Outcome finish() {
    hold_input_ = false;
    exchange([] { return false; });
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    for (int fd = 0; fd <= 2; ++fd) close_end(fd);
    if (WIFEXITED(status)) outcome_.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
    return outcome_;
  }

 private:
  static void become_file(const std::string& path, int flags, int fd) {
    if (path.empty()) return;
    ::dup2(::open(path.c_str(), flags | O_CLOEXEC), fd);
  }
  static int queued(int fd) {
    int n = 0;
    ::ioctl(fd, FIONREAD, &n);
    return n;
  }
  /// A file of the process in /proc (proc(5)).
  std::string of_system(const char* file) const {
    std::ifstream in("/proc/" + std::to_string(pid_) + "/" + file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// The state letter of proc(5), for example S (sleeping) or Z (zombie).
  std::string state() const {
    const std::string line = of_system("stat");
    const std::size_t end_of_name = line.rfind(')');
    return end_of_name == std::string::npos ? "" : line.substr(end_of_name + 2, 1);
  }
  void close_end(int fd) {
    if (fds_[fd] >= 0) ::close(std::exchange(fds_[fd], -1));
  }
  void write_some() {
    // A program that does not read stdin closes the pipe. MSG_NOSIGNAL applies to sockets only, so SIGPIPE is ignored.
    ::signal(SIGPIPE, SIG_IGN);
    const ssize_t n = ::write(fds_[0], rest_.data(), rest_.size());
    if (n < 0 && errno == EAGAIN) return;
    rest_.erase(0, n < 0 ? rest_.size() : static_cast<std::size_t>(n));
  }
  void read_some(int fd, std::string& text) {
    char buffer[1 << 14];
    const ssize_t n = ::read(fds_[fd], buffer, sizeof buffer);
    if (n <= 0) return close_end(fd);
    text.append(buffer, static_cast<std::size_t>(n));
  }

  pid_t pid_ = -1;
  int fds_[3] = {-1, -1, -1};
  std::string rest_;
  bool hold_input_;
  Outcome outcome_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + std::chrono::minutes(kSlowdown);
};

inline Outcome run_program(const Arguments& arguments, const Launch& launch = {}) {
  return Program(arguments, launch).finish();
}

/// Runs a command that must succeed; returns its stdout.
inline std::string output_of(const Arguments& arguments, const Launch& launch = {}) {
  const Outcome o = run_program(arguments, launch);
  EXPECT_EQ(o.status, 0) << testing::PrintToString(arguments) << "\n" << o.err;
  EXPECT_EQ(o.err, "") << testing::PrintToString(arguments);
  return o.out;
}

/// As output_of() with --json. The output must be one object on one line.
inline Json json_of(Arguments arguments, const Launch& launch = {}) {
  arguments.insert(arguments.begin() + 1, "--json");
  const std::string out = output_of(arguments, launch);
  EXPECT_EQ(out.find('\n'), out.size() - 1) << out;
  return Json::parse(out, nullptr, false);
}

/// Expects the exit status `status`, one line on stderr that contains every element of `parts`, and no other output.
inline void expect_failure(const Arguments& arguments, int status, const std::vector<std::string>& parts,
                           const Launch& launch = {}) {
  SCOPED_TRACE(testing::PrintToString(arguments).substr(0, 300));
  const Outcome o = run_program(arguments, launch);
  EXPECT_EQ(o.status, status) << "signal " << o.signal << ", " << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, testing::StartsWith(status == 1 ? "vitrine: error: [" : "vitrine: "));
  EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  EXPECT_EQ(o.err.find('\x1B'), std::string::npos) << "escape sequences";
  for (const std::string& part : parts) EXPECT_THAT(o.err, testing::HasSubstr(part));
}
inline void expect_error(const Arguments& arguments, const std::vector<std::string>& parts, const Launch& launch = {}) {
  expect_failure(arguments, 1, parts, launch);
}
inline void expect_usage_error(const Arguments& arguments, const std::vector<std::string>& parts = {}) {
  expect_failure(arguments, 2, parts);
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder that is removed at the end of its test.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "vitrine_cli_XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr) << path_;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Names of the files in it, without folders.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (!entry.is_directory()) names.insert(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::string path_;
};

inline std::string golden(const std::string& name) { return goldens() + "/" + name; }

/// "1,2,3"
inline std::string joined(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}
inline std::string many_ids(int n) {
  std::string text = "1";
  for (int i = 1; i < n; ++i) text += ",1";
  return text;
}

/// Changes the stored bytes of one tensor of a copied checkpoint.
inline void patch_tensor(const std::string& folder, const std::string& name,
                         const std::function<void(std::span<float>)>& change) {
  const std::string path = folder + "/model.safetensors";
  std::string bytes = read_file(path);
  {
    const SafetensorsFile file = SafetensorsFile::open(path);
    const std::span<const std::byte> tensor = file.tensors().at(name).bytes;
    const auto offset = static_cast<std::size_t>(tensor.data() - file.file()->bytes().data());
    std::vector<float> values(tensor.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data(), tensor.size());
    change(values);
    std::memcpy(bytes.data() + offset, values.data(), tensor.size());
  }
  write_file(path, bytes);
}

inline void patch_config(const std::string& folder, const std::function<void(Json&)>& change) {
  Json config = Json::parse(read_file(folder + "/config.json"));
  change(config);
  write_file(folder + "/config.json", config.dump());
}

/// A tokenizer with the bytes and a few pieces: " a" 259, " b" 260, "ab" 261, " " 262, "a" 263, "b" 264, "," 265,
/// "[" 266, "]" 267.
inline std::string small_tokenizer(const TempFolder& folder) {
  const std::string path = folder / "tokenizer.bin";
  write_file(path, llama2c_file(with_bytes({{" a", 2.0F},
                                            {" b", 1.0F},
                                            {"ab", 0.5F},
                                            {" ", 0.0F},
                                            {"a", 0.0F},
                                            {"b", 0.0F},
                                            {",", 0.0F},
                                            {"[", 0.0F},
                                            {"]", 0.0F}})));
  return path;
}

/// A copy of a golden Llama that generates up to a million tokens: it has no EOS, and ids 1 and 2, which end a text for
/// the small tokenizer, are never the most likely. Every token except id 0 is a byte.
inline std::string endless_model(const TempFolder& folder) {
  std::string path = folder / "endless";
  std::filesystem::copy(golden("llama_mha"), path);
  patch_config(path, [](Json& config) {
    config["max_position_embeddings"] = 1'000'000;
    config["eos_token_id"] = nullptr;
  });
  patch_tensor(path, "lm_head.weight", [](std::span<float> weight) {
    for (std::size_t i = 24; i < 3 * 24; ++i) weight[i] = 0;
  });
  return path;
}

/// A tokenizer with a token for each letter, as the goldens of pairs have no tokenizer.
inline std::string letter_tokenizer() {
  Json tokenizer = Json::parse(R"({"version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "merges": []}})");
  for (int id = 0; id < 3; ++id) {
    const char* const names[] = {"<s>", "<pad>", "</s>"};
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", names[id]}, {"special", true}});
    tokenizer["model"]["vocab"][names[id]] = id;
  }
  for (int i = 0; i < 26; ++i) tokenizer["model"]["vocab"][std::string(1, static_cast<char>('a' + i))] = i + 3;
  return tokenizer.dump();
}

/// The elements of a tensor of a .safetensors file.
inline std::vector<float> tensor_of(const std::string& path, const std::string& name) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const StoredTensor& tensor = file.tensors().at(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

}  // namespace vitrine::test
