/* Names of functions that exist once for each CPU tier.
 *
 * The files in ops/ are compiled once for every tier, with that tier's flags and with SSLM_TIER set to its
 * name, so that each op is written once and no function compiled for a newer CPU can be called on an older.
 * Only what gains from intrinsics has a file of its own for each tier, in inner/.
 */
#ifndef SSLM_TIER_H
#define SSLM_TIER_H

#define SSLM_JOIN2(name, tier) name##_##tier
#define SSLM_JOIN(name, tier) SSLM_JOIN2(name, tier)
#define TIERED(name) SSLM_JOIN(name, SSLM_TIER)

#endif
