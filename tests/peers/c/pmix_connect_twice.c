/* PMIx_Connect of all ranks when they are connected already, which servers of the C library allow, and one disconnect.
 * Prints only zeros. */
#include <pmix.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t me, all;
    int rc, bad = 0;
    if (PMIx_Init(&me, NULL, 0)) return 1;
    PMIX_PROC_LOAD(&all, me.nspace, PMIX_RANK_WILDCARD);
    for (int k = 0; k < 3; k++) { rc = PMIx_Connect(&all, 1, NULL, 0); bad |= rc; printf("%u connect %d: %d\n", me.rank, k, rc); }
    rc = PMIx_Disconnect(&all, 1, NULL, 0); bad |= rc; printf("%u disconnect: %d\n", me.rank, rc);
    rc = PMIx_Connect(&all, 1, NULL, 0); bad |= rc; printf("%u connect again: %d\n", me.rank, rc);
    PMIx_Finalize(NULL, 0);
    return bad != 0;
}
