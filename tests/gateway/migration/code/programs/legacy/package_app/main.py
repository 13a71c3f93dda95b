import asyncio

from app.agent import Agent
from app.functions import registry

if __name__ == "__main__":
    agent = Agent(registry)
    print(asyncio.run(agent.chat("Is 97 prime, and 91?")))
