// The options of `vitrine serve`. Those of a model are also what a list of models says of each of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/sampling_overrides.h"
#include "cli/options.h"
#include "cli/probe_options.h"
#include "cli/speculation_options.h"
#include "cli/store_options.h"

namespace vitrine::cli {

struct ServeOptions : Options, SpeculationOptions, StoreOptions, ProbeOptions {
  std::string model, host = "127.0.0.1", key_file, admin_key_file, adapter_folder, access_log, template_path;
  std::vector<std::string> names, origins;
  std::uint16_t port = 8080;
  std::size_t max_sequences = 32, max_queue = 4096, max_connections = 4096;
  std::int64_t max_body_mib = 4, max_trace_mib = 64, queue_memory_mib = 256;
  std::optional<std::int64_t> kv_memory_mib, prefix_memory_mib;
  std::int64_t constraint_memory_mib = 64;
  double round_ms = 250, drain_seconds = 30;
  bool no_prefix_cache = false, no_inspect = false;
  std::string unknown_fields = "refuse", closed_doors;
  std::string features_index;  ///< A folder of `features index`; "": none.
  std::string models;          ///< A folder or a TOML file with models; "": MODEL alone.
  SamplingOverrides defaults;  ///< Of a model of a list: they replace those of its checkpoint.
};

}  // namespace vitrine::cli
