"""The store over either database."""

from gateway.store.completions import SqlCompletions
from gateway.store.conversations import SqlConversations
from gateway.store.database import Database, GroupCommitter
from gateway.store.jobs import SqlJobs
from gateway.store.reasoning_notes import ReasoningNotes
from gateway.store.responses import SqlResponses
from gateway.store.retention import sweep
from gateway.store.secrets import SqlSecrets


class SqlStore:
    """All that is kept, in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = GroupCommitter(database)
        self.responses = SqlResponses(database, self._writer)
        self.jobs = SqlJobs(database, self._writer, self.responses)
        self.conversations = SqlConversations(database, self._writer)
        self.completions = SqlCompletions(database, self._writer)
        self.notes = ReasoningNotes(database, self._writer)
        self.secrets = SqlSecrets(self._writer)

    async def now(self) -> int:
        """Tell the time by the clock of the database."""
        return int((await self._database.fetch("SELECT {now}"))[0][0])

    async def sweep(self, before: int, limit: int = 100) -> int:
        """Forget what was last used before this time, a part of it at once; give how much."""
        return await self._writer.write(sweep, (before, limit), long=True)

    async def close(self) -> None:
        """Finish what is being written and let go of the database."""
        await self._writer.close()
        await self._database.close()
