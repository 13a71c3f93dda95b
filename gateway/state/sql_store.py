"""The store over either database."""

from gateway.state.completions import SqlCompletions
from gateway.state.conversations import SqlConversations
from gateway.state.database import Database
from gateway.state.jobs import SqlJobs
from gateway.state.notes import ReasoningNotes
from gateway.state.responses import SqlResponses
from gateway.state.secrets import SqlSecrets
from gateway.state.sweeping import sweep
from gateway.state.writer import GroupCommitter


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
