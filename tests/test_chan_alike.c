/* All that holds for channels within one thread holds for shared ones there: the same tests. */
#include <weft.h>

#define weft_chan_new weft_chan_new_shared
#include "test_chan.c"
