// How bytes travel between the ranks of a run. src/ranks/mpi implements it with MPI.
//
// This header has no code of its own outside the class, because the library that implements it is opened while the
// program runs, and shares only this interface with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace vitrine {

/// A send or a receive.
struct Message {
  std::atomic<bool> is_done = false;
};

/// One rank's end of the connections. Ranks calls it from one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Begin to send to, or to receive from, another rank. The bytes must exist, unchanged by others, until poll() has
  /// marked the message as done. The nth receive from a rank on a channel (a small number) takes the nth message that
  /// this rank sends on that channel, whose size must be the same.
  virtual void send(int to, int channel, std::span<const std::byte> bytes, std::shared_ptr<Message> message) = 0;
  virtual void receive(int from, int channel, std::span<std::byte> bytes, std::shared_ptr<Message> message) = 0;
  /// Lets messages proceed, without waiting, and marks those that are done. Returns whether any part of a message has
  /// left or arrived. Throws Error if a connection is broken.
  virtual bool poll() = 0;

  /// Leaves the run, which all ranks must do. Messages that are not done are dropped.
  virtual void finish() = 0;
  /// Ends all processes of the run with this exit status. May not return.
  virtual void abort(int status) = 0;
};

}  // namespace vitrine
