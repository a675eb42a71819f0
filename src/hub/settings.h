// Where the hub is and where its files are kept, from the variables that Hugging Face's own client reads.
#pragma once

#include <chrono>
#include <string>

namespace vitrine {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  ///< HF_ENDPOINT, without a slash at its end.
  /// HF_HUB_CACHE, else HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
  std::string cache{};
  std::string token{};   ///< HF_TOKEN, else the content of HF_TOKEN_PATH or HF_HOME/token; "": none.
  bool offline = false;  ///< HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE.
  std::chrono::milliseconds timeout{10000};  ///< HF_HUB_DOWNLOAD_TIMEOUT: the longest time without a byte.

  /// Throws BadInput, naming the variable, for a value that it cannot have.
  static HubSettings from_environment();
};

}  // namespace vitrine
