// What the weights of a dictionary say about each feature, as SAELens's evals compute it.
#pragma once

#include <vector>

#include "parallel/thread_pool.h"
#include "pass/dictionary.h"

namespace vitrine {

struct EncoderStatistics {
  std::vector<float> norms{};    ///< `[d_sae]`: ‖W_enc[:, i]‖
  std::vector<float> cosines{};  ///< `[d_sae]`: of W_enc[:, i] and W_dec[i]; empty if d_in is not d_out.
};

/// Reads the weights once, a few features at a time.
EncoderStatistics encoder_statistics(const Dictionary& dictionary, ThreadPool& pool);

}  // namespace vitrine
