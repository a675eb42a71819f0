// The program: finds the command, runs it, and reports an error as one line and an exit status.
//
// Exit status: 0 success; 1 bad input; 2 wrong usage; 130, 143 or 129 after SIGINT (Ctrl-C), SIGTERM or SIGHUP; 141 if
// stdout is a pipe that its reader has closed.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <new>
#include <string_view>

#include "base/error.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/processes.h"

namespace vitrine::cli {
namespace {

std::atomic<bool> g_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool> g_has_enough = false;  // see end_early_at_usr1()
volatile sig_atomic_t g_signal = 0;
std::atomic<int> g_clean_stops = 0;
static_assert(std::atomic<int>::is_always_lock_free);
bool g_has_terminal = false;  // whether stderr is a terminal
bool g_reports = true;

/// `timeout` sends a signal to its child and to the child's process group, so one request can arrive twice. The program
/// takes all signals within this time for one request.
constexpr double kSecondsOfRequest = 0.3;

double seconds_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);  // may be called in a handler
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void on_signal(int number) {
  static double first_request = 0;  // handlers do not interrupt each other: sa_mask
  const double now = seconds_now();
  if (g_interrupted && now - first_request < kSecondsOfRequest) return;
  if (g_clean_stops == 0 || g_interrupted) {
    std::string_view note = "\r\x1B[Kvitrine: interrupted\n";  // a progress bar may be there
    if (!g_has_terminal) note.remove_prefix(4);
    if (g_reports) (void)!::write(STDERR_FILENO, note.data(), note.size());  // the process exits even if this fails
    ::_exit(128 + number);
  }
  first_request = now;
  g_signal = number;
  g_interrupted = true;
}

/// Makes a signal end the process, or request a clean stop (see CleanStop). A second request ends it.
void handle_signals() {
  g_has_terminal = is_terminal(STDERR_FILENO);
  g_reports = is_first_process();  // a launcher signals all ranks
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, number);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
  // Writing to a closed pipe, or beyond `ulimit -f`, must fail instead of killing the process, so that files that are
  // being written can be removed.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

/// Ends the process as SIGPIPE ends other programs; a shell reports 141.
int end_by_closed_pipe() {
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
  return 128 + SIGPIPE;  // if the signal is blocked
}

/// If stdin, stdout or stderr is closed, the next file opened would get its number, and output would go into that file.
/// A descriptor that fails like a closed one takes the number instead: stdin cannot be read, the others cannot be
/// written.
void keep_standard_files() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

std::string version_line() {
  const Kernels& kernels = default_kernels();
  const bool differs = kernels.isa == Isa::avx512bf16 && !kernels.pairs(false).by_instruction;
  const std::string build = build_name();
  const std::size_t space = build.find(' ');
  return fmt::format("vitrine {} ({}, {}{})", build.substr(0, space), build.substr(space + 1), name_of(kernels.isa),
                     differs ? "; VDPBF16PS differs from its definition, so bf16 is multiplied as float32" : "");
}

int run(int argc, char** argv) {
  Command program("A transformer language-model engine that runs and trains models and shows every value in them.",
                  "vitrine", version_line);
  for (const auto add :
       {add_predict,   add_fill,    add_generate,  add_translate, add_encode, add_similarity, add_classify,
        add_rerank,    add_tag,     add_answer,    add_logits,    add_grad,   add_tokenize,   add_detokenize,
        add_trace,     add_eval,    add_info,      add_init,      add_bench,  add_quantize,   add_imatrix,
        add_tokenizer, add_lora,    add_control,   add_data,      add_plot,   add_train,      add_embed,
        add_features,  add_circuit, add_probe,     add_example,   add_score,  add_template,   add_chat,
        add_lens,      add_heads,   add_attribute, add_patch,     add_look,   add_serve,      add_constrain,
        add_pull,      add_models,  add_completion}) {
    add(program);
  }
  add_man(program, version());
  add_page(program);
  program.footer(
      "Run vitrine COMMAND --help for the options of a command.\n"
      "Example: vitrine generate stories260K.bin \"Once upon a time\" --tokenizer tok512.bin");
  try {
    const std::string text = program.parse(argc, argv);
    if (!text.empty()) print(text);
    return 0;
  } catch (const UsageError& e) {
    if (is_first_process()) note(std::string("usage: ") + e.what() + " (see --help)");
    return 2;
  }
}

}  // namespace

const std::atomic<bool>& interrupted() { return g_interrupted; }
const std::atomic<bool>& has_enough() { return g_has_enough; }

void end_early_at_usr1() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_has_enough = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

bool forget_interrupt() {
  if (g_signal != SIGINT) return false;
  g_interrupted = false;
  return true;
}

CleanStop::CleanStop() { ++g_clean_stops; }
CleanStop::~CleanStop() { --g_clean_stops; }
bool CleanStop::is_outermost() const { return g_clean_stops == 1; }
void stop_cleanly() { ++g_clean_stops; }

}  // namespace vitrine::cli

int main(int argc, char** argv) {
  using namespace vitrine;
  using namespace vitrine::cli;
  keep_standard_files();
  handle_signals();
  try {
    return run(argc, argv);
  } catch (const Interrupted&) {
    if (is_first_process()) note("interrupted");
    return 128 + (g_signal != 0 ? g_signal : SIGTERM);  // the signal of another process of the run
  } catch (const ClosedPipe&) {
    return end_by_closed_pipe();
  } catch (const Reported&) {
    return 1;
  } catch (const std::bad_alloc&) {
    note("error: [memory] not enough memory");
  } catch (const std::exception& e) {
    if (is_first_process()) note(std::string("error: ") + e.what());
  }
  return 1;
}
