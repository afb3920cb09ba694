/*
 * attune: exact attention on whatever device there is. This header brings the whole API for applications; backend.h and
 * backend_util.h are for those who write a backend.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_H
#define ATTUNE_H

#include "attune/attention.h"
#include "attune/device.h"
#include "attune/kvcache.h"
#include "attune/log.h"
#include "attune/plan.h"
#include "attune/sparse.h"
#include "attune/status.h"
#include "attune/types.h"
#include "attune/version.h"

#endif
