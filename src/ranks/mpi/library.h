// The one function of libvitrine-mpi.so.
#pragma once

#include "ranks/transport.h"

namespace vitrine {

constexpr const char* kMpiLibrary = "libvitrine-mpi.so";
/// Its name has the version of Transport's interface.
constexpr const char* kOpenTransport = "vitrine_open_transport_2";

/// Starts MPI. Throws Error. The caller owns the result.
using OpenTransport = Transport* (*)();

}  // namespace vitrine
