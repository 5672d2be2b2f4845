/* Placeholder. */
#include <weft/select.h>
