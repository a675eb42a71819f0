// Transport over MPI. This is the only file that includes mpi.h.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "ranks/mpi/library.h"

namespace vitrine {
namespace {

/// Throws the error of a call.
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw BadInput("MPI", "{}: {}", call, text.data());
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw BadInput("MPI", "expected an MPI that several threads may call in turn");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, int channel, std::span<const std::byte> bytes, std::shared_ptr<Message> message) override {
    MPI_Request request{};
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, channel, MPI_COMM_WORLD, &request),
          "MPI_Isend");
    add(request, std::move(message));
  }

  void receive(int from, int channel, std::span<std::byte> bytes, std::shared_ptr<Message> message) override {
    MPI_Request request{};
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, channel, MPI_COMM_WORLD, &request),
          "MPI_Irecv");
    add(request, std::move(message));
  }

  void poll() override {
    done_.resize(requests_.size());
    int n_done = 0;
    check(
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &n_done, done_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    if (n_done == MPI_UNDEFINED || n_done == 0) return;
    for (int i = 0; i < n_done; ++i)
      messages_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])]->is_done = true;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      messages_[kept++] = std::move(messages_[i]);
    }
    requests_.resize(kept);
    messages_.resize(kept);
  }

  void finish() override {
    for (MPI_Request& request : requests_) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    requests_.clear();
    messages_.clear();
    MPI_Finalize();
  }

  void abort(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }

 private:
  void add(MPI_Request request, std::shared_ptr<Message> message) {
    requests_.push_back(request);
    messages_.push_back(std::move(message));
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<Message>> messages_;  // of the requests
  std::vector<int> done_;
};

}  // namespace
}  // namespace vitrine

extern "C" __attribute__((visibility("default"))) vitrine::Transport* vitrine_open_transport_1();
vitrine::Transport* vitrine_open_transport_1() { return new vitrine::MpiTransport; }
