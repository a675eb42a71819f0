#include "example/facts.h"

namespace vitrine {

Part part_of(Site site) {
  switch (site) {
    case Site::resid_pre:
    case Site::attn_out:
    case Site::resid_mid:
    case Site::mlp_out:
    case Site::resid_post:
      return Part::stream;
    case Site::q:
    case Site::k:
    case Site::v:
    case Site::rot_q:
    case Site::rot_k:
    case Site::scores_raw:
    case Site::scores:
    case Site::pattern:
    case Site::z:
    case Site::attn_proj:
      return Part::attention;
    case Site::router_logits:
    case Site::expert_weights:
    case Site::expert_indices:
    case Site::expert_tokens:
    case Site::expert_gate:
    case Site::expert_pre:
    case Site::expert_post:
    case Site::expert_out:
    case Site::mlp_pre:
    case Site::mlp_pre_linear:
    case Site::mlp_post:
    case Site::mlp_proj:
      return Part::ffn;
    default:
      return Part::ends;
  }
}

}  // namespace vitrine
